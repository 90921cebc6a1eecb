/** Programs at each point of their history: versions between passes, and states between single rewrites. */

import type { Data, PassDone, Rec, Step } from "./data";

/** A program: its records by node, in order. */
export type State = Map<number, Rec>;

/** What became of a node from one state to another. */
export type Change = "same" | "changed" | "gone" | "new";

/** One place of the history that can be looked at. */
export interface Moment {
  kind: "start" | "rewrite" | "pass";
  pass: number;
  /** The place among `Data.steps`, for a rewrite. */
  step: number;
}

export class History {
  readonly moments: Moment[];
  readonly before: State;
  readonly after: State;
  private readonly versions = new Map<number, State>();
  private readonly firstStep: number[];
  private readonly names = new Map<number, string>();
  private readonly madeBy = new Map<number, number[]>();
  private ancestors: Map<number, Set<number>> | undefined;
  private descendants: Map<number, Set<number>> | undefined;

  constructor(readonly data: Data) {
    this.before = this.version(0);
    this.after = this.version(data.versions.length - 1);
    this.firstStep = data.passes.map((_, index) => {
      const found = data.steps.findIndex((step) => step.pass === index);
      return found < 0 ? data.steps.length : found;
    });
    data.steps.forEach((step, index) => {
      for (const edit of step.edit) {
        if (edit >= 0) {
          const node = this.record(edit).node;
          this.madeBy.set(node, [...(this.madeBy.get(node) ?? []), index]);
        }
      }
    });
    this.moments = [{ kind: "start", pass: -1, step: -1 }];
    data.passes.forEach((pass, index) => {
      data.steps.forEach((step, place) => {
        if (step.pass === index) this.moments.push({ kind: "rewrite", pass: index, step: place });
      });
      if (this.changedWithoutRules(pass)) this.moments.push({ kind: "pass", pass: index, step: -1 });
    });
  }

  /** Whether there is more than one program to look at. */
  get hasChanges(): boolean {
    return this.data.versions.length > 1;
  }

  record(index: number): Rec {
    return this.data.records[index]!;
  }

  /** The program of a version. */
  version(index: number): State {
    const wanted = this.data.versions[index]!.same;
    let state = this.versions.get(wanted);
    if (state === undefined) {
      state = new Map();
      for (const place of this.data.versions[wanted]!.records ?? []) {
        const record = this.record(place);
        state.set(record.node, record);
      }
      this.versions.set(wanted, state);
    }
    return state;
  }

  private changedWithoutRules(pass: PassDone): boolean {
    return this.version(pass.version) !== this.version(pass.end) && (pass.rewrites === 0 || pass.kept < pass.rewrites);
  }

  /** The programs just before and just after a moment, and the nodes that it is about in each. */
  around(moment: Moment): { before: State; after: State; from: Set<number>; to: Set<number> } {
    if (moment.kind === "start") {
      return { before: this.before, after: this.before, from: new Set(), to: new Set() };
    }
    const pass = this.data.passes[moment.pass]!;
    if (moment.kind === "pass") {
      const before = this.edited(this.version(pass.version), this.firstStep[moment.pass]!, this.lastStep(moment.pass));
      const after = this.version(pass.end);
      const from = new Set<number>();
      const to = new Set<number>();
      for (const [node, change] of changes(before, after)) {
        if (change === "gone" || change === "changed") from.add(node);
        if (change === "new" || change === "changed") to.add(node);
      }
      return { before, after, from, to };
    }
    const step = this.data.steps[moment.step]!;
    const before = this.edited(this.version(pass.version), this.firstStep[moment.pass]!, moment.step);
    const after = this.edited(before, moment.step, moment.step + 1);
    const to = new Set<number>();
    const from = new Set(step.matched.filter((node) => before.has(node)));
    for (const edit of step.edit) {
      if (edit < 0) from.add(-1 - edit);
      else {
        const node = this.record(edit).node;
        to.add(resolve(after, node));
        if (before.has(node)) from.add(node);
      }
    }
    return { before, after, from, to };
  }

  private lastStep(pass: number): number {
    let place = this.firstStep[pass]!;
    while (this.data.steps[place]?.pass === pass) place += 1;
    return place;
  }

  /** A program after the rewrites from one place among the steps to another. */
  private edited(state: State, from: number, to: number): State {
    const next = new Map(state);
    for (let place = from; place < to; place += 1) {
      for (const edit of this.data.steps[place]!.edit) {
        if (edit < 0) next.delete(-1 - edit);
        else next.set(this.record(edit).node, this.record(edit));
      }
    }
    return next;
  }

  /** What a node is called. */
  nameOf(node: number): string {
    if (this.names.size === 0) for (const record of this.data.records) this.names.set(record.node, record.name);
    return this.names.get(node) ?? "";
  }

  /** The rewrites that made what `node` is now, in order. */
  rewritesOf(node: number): Step[] {
    return (this.madeBy.get(node) ?? []).map((index) => this.data.steps[index]!);
  }

  /** The pass after which the record of `node` was first what it is in the last version; undefined if always. */
  passOf(node: number): PassDone | undefined {
    const last = this.after.get(node);
    if (last === undefined || same(this.before.get(node), last)) return undefined;
    return this.data.passes.find((pass) => same(this.version(pass.end).get(node), last));
  }

  /** The nodes of the last version that `node`, of the first, became. */
  became(node: number): number[] {
    this.trace();
    return this.counterparts(node, this.descendants!, this.after, this.before);
  }

  /** The nodes of the first version that `node`, of the last, came from. */
  cameFrom(node: number): number[] {
    this.trace();
    return this.counterparts(node, this.ancestors!, this.before, this.after);
  }

  private counterparts(node: number, links: Map<number, Set<number>>, there: State, here: State): number[] {
    const found = new Set<number>();
    if (there.has(node)) found.add(resolve(there, node));
    for (const other of links.get(node) ?? []) if (there.has(other)) found.add(other);
    if (found.size > 0) return [...found];
    // No rule says so: the nodes that came from the same places of the source.
    const origins = new Set(here.get(node)?.origins ?? []);
    for (const record of there.values()) {
      if (record.origins.some((origin) => origins.has(origin))) found.add(record.node);
      if (found.size >= 12) break;
    }
    return [...found];
  }

  private trace(): void {
    if (this.ancestors !== undefined) return;
    const roots = new Map<number, Set<number>>();
    const rootsOf = (node: number): Set<number> => {
      let set = roots.get(node);
      if (set === undefined) {
        set = new Set([node]);
        roots.set(node, set);
      }
      return set;
    };
    for (const step of this.data.steps) {
      const sources = new Set<number>();
      for (const node of step.matched) for (const root of rootsOf(node)) sources.add(root);
      for (const edit of step.edit) {
        if (edit < 0) continue;
        const record = this.record(edit);
        // An alias names a value that is there already: it takes over what the alias stood for.
        const target = record.alias >= 0 ? record.alias : record.node;
        const merged = new Set(rootsOf(target));
        const added = record.alias >= 0 ? rootsOf(record.node) : sources;
        for (const source of added) merged.add(source);
        roots.set(target, merged);
      }
    }
    this.ancestors = roots;
    this.descendants = new Map();
    for (const [node, set] of roots) {
      if (!this.after.has(node)) continue;
      for (const source of set) {
        const known = this.descendants.get(source);
        if (known === undefined) this.descendants.set(source, new Set([node]));
        else known.add(node);
      }
    }
  }
}

/** The node that `node` stands for: aliases looked through. */
export function resolve(state: State, node: number): number {
  for (let count = 0; count < 1000; count += 1) {
    const record = state.get(node);
    if (record === undefined || record.alias < 0) return node;
    node = record.alias;
  }
  return node;
}

function same(one: Rec | undefined, other: Rec | undefined): boolean {
  if (one === other) return true;
  if (one === undefined || other === undefined) return false;
  return (
    one.op === other.op &&
    one.type === other.type &&
    one.text === other.text &&
    one.operands.length === other.operands.length &&
    one.operands.every((operand, index) => operand === other.operands[index])
  );
}

/** What became of each node from one program to another. */
export function changes(before: State, after: State): Map<number, Change> {
  const found = new Map<number, Change>();
  for (const [node, record] of before) {
    const other = after.get(node);
    found.set(node, other === undefined ? "gone" : same(record, other) ? "same" : "changed");
  }
  for (const node of after.keys()) if (!before.has(node)) found.set(node, "new");
  return found;
}

/** For each node those that compute with it. */
export function usersOf(state: State): Map<number, number[]> {
  const users = new Map<number, number[]>();
  for (const record of state.values()) {
    for (const operand of new Set(record.operands)) {
      const source = resolve(state, operand);
      const known = users.get(source);
      if (known === undefined) users.set(source, [record.node]);
      else known.push(record.node);
    }
  }
  return users;
}

/** The part of a program around some nodes: they, what they read, and what reads them; at most `most` nodes. */
export function neighbourhood(state: State, centre: Iterable<number>, most = 90): State {
  const chosen = new Set<number>();
  for (const node of centre) {
    const target = resolve(state, node);
    if (state.has(target) && chosen.size < most) chosen.add(target);
  }
  const users = usersOf(state);
  for (const node of [...chosen]) {
    const record = state.get(node)!;
    for (const other of [...record.operands.map((operand) => resolve(state, operand)), ...(users.get(node) ?? [])]) {
      if (chosen.size < most * 1.5 && state.has(other)) chosen.add(other);
    }
  }
  const part: State = new Map();
  for (const [node, record] of state) if (chosen.has(node)) part.set(node, record);
  return part;
}

/** A tensor's type as an edge shows it: `2×77×768`, with the dtype where it is not the usual one. */
export function shapeText(type: string): string {
  if (type.startsWith("R.Tuple(")) return "tuple";
  const found = /^([a-z0-9_]+)\[(.*)\]$/.exec(type);
  if (found === null) return type.length > 28 ? `${type.slice(0, 26)}…` : type;
  const shape = found[2] === "" ? "scalar" : found[2]!.split(", ").join("×");
  const text = found[1] === "float32" ? shape : `${shape} ${found[1]}`;
  return text.length > 40 ? `${text.slice(0, 38)}…` : text;
}
