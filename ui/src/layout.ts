/** From a program and its open groups to a picture: what is seen, and where ELK, in its worker, puts it. */

import ELK from "elkjs/lib/elk-api.js";
import type { ElkEdgeSection, ElkExtendedEdge, ElkNode } from "elkjs/lib/elk-api.js";

import { unpack, type Rec } from "./data";
import { idOf, isGroup, type Group, type Hierarchy } from "./hierarchy";
import { resolve, shapeText, type State } from "./program";

export interface Box {
  id: string;
  x: number;
  y: number;
  width: number;
  height: number;
  depth: number;
  open: boolean;
  record: Rec | null;
  group: Group | null;
}

export interface Line {
  id: string;
  from: string;
  to: string;
  points: { x: number; y: number }[];
  label: string;
  labelAt: { x: number; y: number } | null;
  /** The value that flows, -1 where there are several. */
  node: number;
}

export interface Picture {
  boxes: Box[];
  lines: Line[];
  width: number;
  height: number;
  byId: Map<string, Box>;
}

const FONT = 13;
const SMALL = 11;
const MOST_LABELS = 500;

let measure: CanvasRenderingContext2D | null = null;
const widths = new Map<string, number>();

/** The width of a text in pixels, as the page's fonts draw it. */
function textWidth(text: string, size: number, bold: boolean): number {
  const key = `${size}${bold ? "b" : ""}${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    measure ??= document.createElement("canvas").getContext("2d");
    if (measure === null) return text.length * size * 0.6;
    measure.font = `${bold ? "600 " : ""}${size}px system-ui, sans-serif`;
    width = measure.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** What a node shows: what it does, and its name. */
export function titleOf(record: Rec): string {
  return clip(record.kind === "input" || record.kind === "output" ? record.name : record.op, 30);
}

export function subtitleOf(record: Rec): string {
  if (record.kind === "input" || record.kind === "output") return clip(shapeText(record.type), 34);
  const weights = record.weights.map((weight) => shapeText(weight.slice(weight.lastIndexOf(": ") + 2)));
  return clip(weights.length > 0 ? `${record.name} · ${weights.join(", ")}` : record.name, 34);
}

export function clip(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

export function groupSubtitle(group: Group): string {
  return `${group.size.toLocaleString("en")} operator${group.size === 1 ? "" : "s"}`;
}

interface Visible {
  graph: ElkNode;
  edges: Map<string, { from: string; to: string; nodes: Set<number> }>;
  boxes: Map<string, Box>;
}

/** What is seen when `open` groups are open. Cost: linear in the program. */
function visible(state: State, hierarchy: Hierarchy, open: ReadonlySet<string>): Visible {
  const shown = new Map<number, string>();
  const boxes = new Map<string, Box>();
  const box = (id: string, record: Rec | null, group: Group | null, depth: number, isOpen: boolean): void => {
    boxes.set(id, { id, x: 0, y: 0, width: 0, height: 0, depth, open: isOpen, record, group });
  };
  const hide = (group: Group, id: string): void => {
    for (const member of group.members) {
      if (isGroup(member)) hide(member, id);
      else shown.set(member.node, id);
    }
  };
  const children = (group: Group, depth: number): ElkNode[] =>
    group.members.map((member): ElkNode => {
      const id = idOf(member);
      if (!isGroup(member)) {
        shown.set(member.node, id);
        box(id, member, null, depth, false);
        const width = Math.max(textWidth(titleOf(member), FONT, true), textWidth(subtitleOf(member), SMALL, false));
        return { id, width: Math.ceil(width) + 28, height: 44 };
      }
      if (open.has(member.id)) {
        box(id, null, member, depth, true);
        const label = Math.ceil(textWidth(clip(member.label, 44), FONT, true)) + 60;
        return {
          id,
          children: children(member, depth + 1),
          layoutOptions: {
            "elk.padding": "[top=38,left=16,bottom=16,right=16]",
            "elk.nodeSize.constraints": "MINIMUM_SIZE",
            "elk.nodeSize.minimum": `(${label}, 60)`,
          },
        };
      }
      hide(member, id);
      box(id, null, member, depth, false);
      const wide = Math.max(textWidth(clip(member.label, 44), FONT, true), textWidth(groupSubtitle(member), SMALL, false));
      return { id, width: Math.ceil(wide) + 48, height: 48 };
    });
  const graph: ElkNode = { id: "root", children: children(hierarchy.root, 0) };
  const edges: Visible["edges"] = new Map();
  for (const record of state.values()) {
    const to = shown.get(record.node);
    if (to === undefined) continue;
    for (const operand of record.operands) {
      const source = resolve(state, operand);
      const from = shown.get(source);
      if (from === undefined || from === to) continue;
      const key = `${from}\u0000${to}`;
      const known = edges.get(key);
      if (known === undefined) edges.set(key, { from, to, nodes: new Set([source]) });
      else known.nodes.add(source);
    }
  }
  return { graph, edges, boxes };
}

const OPTIONS = {
  "elk.algorithm": "layered",
  "elk.direction": "DOWN",
  "elk.hierarchyHandling": "INCLUDE_CHILDREN",
  "elk.edgeRouting": "POLYLINE",
  "elk.layered.spacing.nodeNodeBetweenLayers": "34",
  "elk.spacing.nodeNode": "22",
  "elk.spacing.edgeNode": "14",
  "elk.spacing.edgeEdge": "8",
  "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
  "elk.layered.nodePlacement.strategy": "BRANDES_KOEPF",
  "elk.layered.nodePlacement.bk.fixedAlignment": "BALANCED",
  "elk.layered.thoroughness": "3",
  "elk.edgeLabels.inline": "false",
};

export class Layouter {
  private engine: Promise<InstanceType<typeof ELK>> | undefined;
  private readonly done = new Map<string, Promise<Picture>>();

  private async start(): Promise<InstanceType<typeof ELK>> {
    const source = await unpack("regraft-worker");
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    return new ELK({ workerFactory: () => new Worker(url) });
  }

  /** Begin to load the worker, before a picture is needed. */
  warm(): void {
    this.engine ??= this.start();
  }

  /** Where everything goes; the same question is answered from memory. */
  picture(key: string, state: State, hierarchy: Hierarchy, open: ReadonlySet<string>): Promise<Picture> {
    const full = `${key}\u0000${[...open].sort().join("\u0001")}`;
    let found = this.done.get(full);
    if (found === undefined) {
      if (this.done.size > 60) this.done.clear();
      found = this.compute(state, hierarchy, open);
      this.done.set(full, found);
      found.catch(() => this.done.delete(full));
    }
    return found;
  }

  private async compute(state: State, hierarchy: Hierarchy, open: ReadonlySet<string>): Promise<Picture> {
    const seen = visible(state, hierarchy, open);
    const labelled = seen.edges.size <= MOST_LABELS;
    const edges = [...seen.edges.entries()].map(([id, edge]): ElkExtendedEdge => {
      const text = edgeLabel(state, edge.nodes);
      const labels = labelled
        ? [{ text, width: Math.ceil(textWidth(text, SMALL, false)) + 6, height: 14, layoutOptions: { "elk.edgeLabels.placement": "CENTER" } }]
        : [];
      return { id, sources: [edge.from], targets: [edge.to], labels };
    });
    this.warm();
    const engine = await this.engine!;
    const placed = await engine.layout({ ...seen.graph, edges, layoutOptions: OPTIONS });
    return picture(placed, seen, state);
  }
}

function edgeLabel(state: State, nodes: ReadonlySet<number>): string {
  if (nodes.size > 1) return `${nodes.size} tensors`;
  const [node] = nodes;
  return shapeText(state.get(node!)?.type ?? "");
}

function picture(placed: ElkNode, seen: Visible, state: State): Picture {
  const offsets = new Map<string, { x: number; y: number }>([["root", { x: 0, y: 0 }]]);
  const walk = (node: ElkNode, left: number, top: number): void => {
    for (const child of node.children ?? []) {
      const box = seen.boxes.get(child.id)!;
      box.x = left + (child.x ?? 0);
      box.y = top + (child.y ?? 0);
      box.width = child.width ?? 0;
      box.height = child.height ?? 0;
      offsets.set(child.id, { x: box.x, y: box.y });
      walk(child, box.x, box.y);
    }
  };
  walk(placed, 0, 0);
  const lines = (placed.edges ?? []).map((edge): Line => {
    const known = seen.edges.get(edge.id)!;
    // ELK gives points relative to the innermost box around both ends.
    const container = (edge as { container?: string }).container ?? "root";
    const { x, y } = offsets.get(container) ?? { x: 0, y: 0 };
    const section: ElkEdgeSection | undefined = edge.sections?.[0];
    const points = section === undefined ? [] : [section.startPoint, ...(section.bendPoints ?? []), section.endPoint];
    const label = edge.labels?.[0];
    const [only] = known.nodes;
    return {
      id: edge.id,
      from: known.from,
      to: known.to,
      points: points.map((point) => ({ x: point.x + x, y: point.y + y })),
      label: label?.text ?? edgeLabel(state, known.nodes),
      labelAt: label === undefined ? null : { x: (label.x ?? 0) + x + (label.width ?? 0) / 2, y: (label.y ?? 0) + y + 10 },
      node: known.nodes.size === 1 ? only! : -1,
    };
  });
  return {
    boxes: [...seen.boxes.values()],
    lines,
    width: placed.width ?? 0,
    height: placed.height ?? 0,
    byId: seen.boxes,
  };
}
