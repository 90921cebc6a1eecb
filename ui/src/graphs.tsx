/** The views that show graphs: one program, two side by side, and each step between them. */

import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";

import { Canvas, type Focus, type Mark } from "./canvas";
import type { Data } from "./data";
import { plural, seconds } from "./format";
import { hierarchyOf, type Group } from "./hierarchy";
import { GroupInspector, Inspector } from "./inspector";
import { Outline } from "./outline";
import { changes, neighbourhood, type Change, type History, type Moment, type State } from "./program";

export interface Selection {
  node: number | null;
  group: string | null;
}

export type SearchBox = { current: HTMLInputElement | null };

const NONE: ReadonlySet<number> = new Set();
const NOTHING: ReadonlySet<string> = new Set();

/** A number that grows whenever the view is to go to a node again. */
let serial = 0;

export function focusOn(node: number): Focus {
  serial += 1;
  return { node, serial };
}

function groupOf(state: State, id: string): Group | undefined {
  return hierarchyOf(state).groups.get(id);
}

interface ViewProps {
  data: Data;
  history: History;
  selection: Selection;
  onSelect: (selection: Selection) => void;
  focus: Focus | null;
  onFocus: (focus: Focus) => void;
  search: SearchBox;
}

export function GraphView(props: ViewProps): VNode {
  const { data, history, selection, onSelect, focus } = props;
  const last = data.versions.length - 1;
  const [version, setVersion] = useState(last);
  const [open, setOpen] = useState<ReadonlySet<string> | null>(null);
  const [heated, setHeated] = useState(data.profiles.length > 0);
  const state = history.version(version);
  const selected = useMemo(() => (selection.node === null ? NONE : new Set([selection.node])), [selection.node]);
  const profile = data.profiles.find((one) => one.version === version);
  const heat = useMemo(() => (heated && profile ? heatOf(profile.rows) : undefined), [heated, profile]);
  useEffect(() => {
    // A node that only an earlier version has is shown there.
    if (focus !== null && !state.has(focus.node)) {
      const found = data.versions.findIndex((_, index) => history.version(index).has(focus.node));
      if (found >= 0) setVersion(found);
    }
  }, [focus?.serial]);
  const select = useMemo(() => (node: number | null, group: string | null) => onSelect({ node, group }), [onSelect]);
  const go = (node: number): void => {
    onSelect({ node, group: null });
    props.onFocus(focusOn(node));
  };
  const group = selection.group === null ? undefined : groupOf(state, selection.group);
  return (
    <div class="three">
      <aside class="side">
        {last > 0 && (
          <label class="field">Program
            <select value={version} onChange={(event) => { setVersion(Number(event.currentTarget.value)); setOpen(null); }}>
              {data.versions.map((one, index) => (one.records !== null || index === last) && (
                <option key={index} value={index}>{index === last ? "the result" : one.label}</option>))}
            </select>
          </label>
        )}
        {profile && <label class="check"><input type="checkbox" checked={heated} onChange={() => setHeated(!heated)} /> color by measured time</label>}
        <Outline state={state} selected={selected} selectedGroup={selection.group} search={props.search}
          onSelect={(node, inside) => { onSelect({ node, group: inside }); if (node !== null) props.onFocus(focusOn(node)); }} />
      </aside>
      <Canvas name={`version-${version}`} label={version === last ? "the result" : data.versions[version]!.label} state={state} open={open} onOpen={setOpen}
        selected={selected} selectedGroup={selection.group} onSelect={select} heat={heat} focus={focus} />
      <aside class="side right">
        {selection.node !== null ? (
          <Inspector data={data} history={history} state={state} version={version} node={selection.node} onGo={go}
            {...(version === last && last > 0 ? { counterparts: { label: "Came from", state: history.before, nodes: history.cameFrom(selection.node), onGo: go } } : {})} />
        ) : group ? <GroupInspector group={group} state={state} onGo={go} /> : <Hint />}
      </aside>
    </div>
  );
}

function Hint(): VNode {
  return (
    <div class="hint">
      <p>Choose a node to see its type, where it came from and what made it.</p>
      <p>A module opens by a click on its <b>+</b>, a double click, or Enter.</p>
      <Legend />
    </div>
  );
}

function Legend(): VNode {
  const families = [
    ["compute", "products and convolutions"], ["attention", "attention"], ["norm", "norms and reductions"], ["elementwise", "elementwise"],
    ["layout", "shape and layout"], ["data", "indexing and joining"], ["port", "inputs and outputs"], ["other", "everything else"],
  ];
  return <ul class="families">{families.map(([name, text]) => <li key={name}><span class={`swatch family-${name}`} />{text}</li>)}</ul>;
}

/** The measured time of some nodes together; null where none of them was measured. */
export function heatOf(rows: { node: number; seconds: number }[]): (records: { node: number }[]) => number | null {
  const times = new Map<number, number>();
  for (const row of rows) if (row.node >= 0) times.set(row.node, (times.get(row.node) ?? 0) + row.seconds);
  return (records) => {
    let sum = 0;
    let known = false;
    for (const { node } of records) {
      const time = times.get(node);
      if (time !== undefined) {
        sum += time;
        known = true;
      }
    }
    return known ? sum : null;
  };
}

// --- before and after

export function CompareView(props: ViewProps): VNode {
  const { data, history } = props;
  const [open, setOpen] = useState<ReadonlySet<string> | null>(null);
  const [chosen, setChosen] = useState<{ side: "before" | "after"; node: number | null; group: string | null }>(() => {
    const node = props.selection.node;
    return { side: node !== null && history.after.has(node) ? "after" : "before", node, group: props.selection.group };
  });
  const [focus, setFocus] = useState<{ before: Focus | null; after: Focus | null }>(() => {
    // What was chosen in the graph is shown here, too, with its counterpart.
    const { side, node } = chosen;
    if (node === null) return { before: null, after: null };
    const there = (side === "before" ? history.became(node) : history.cameFrom(node))[0];
    const other = there === undefined ? null : focusOn(there);
    return side === "before" ? { before: focusOn(node), after: other } : { before: other, after: focusOn(node) };
  });
  const diff = useMemo(() => changes(history.before, history.after), [history]);
  const marks = useMemo(() => ({ before: marksOf(diff, true), after: marksOf(diff, false) }), [diff]);
  const partners = useMemo(() => {
    if (chosen.node === null) return [];
    return chosen.side === "before" ? history.became(chosen.node) : history.cameFrom(chosen.node);
  }, [chosen, history]);
  const pick = useMemo(() => (side: "before" | "after") => (node: number | null, group: string | null): void => {
    setChosen({ side, node, group });
    props.onSelect({ node, group });
    if (node === null) return;
    const there = side === "before" ? history.became(node) : history.cameFrom(node);
    if (there[0] !== undefined) setFocus((old) => ({ ...old, [side === "before" ? "after" : "before"]: focusOn(there[0]!) }));
  }, [history, props.onSelect]);
  const pickBefore = useMemo(() => pick("before"), [pick]);
  const pickAfter = useMemo(() => pick("after"), [pick]);
  const goOn = (side: "before" | "after") => (node: number): void => {
    setFocus((old) => ({ ...old, [side]: focusOn(node) }));
    (side === "before" ? pickBefore : pickAfter)(node, null);
  };
  const selected = (side: "before" | "after"): ReadonlySet<number> =>
    chosen.node === null ? NONE : new Set(side === chosen.side ? [chosen.node] : partners);
  const first = useMemo(() => selected("before"), [chosen, partners]);
  const second = useMemo(() => selected("after"), [chosen, partners]);
  const numbers = useMemo(() => countsOf(diff), [diff]);
  const side = chosen.side;
  const state = side === "before" ? history.before : history.after;
  const other = side === "before" ? "after" : "before";
  const group = chosen.group === null ? undefined : groupOf(state, chosen.group);
  return (
    <div class="compare">
      <p class="legend-line" role="status">
        <span class="mark-gone">− {numbers.gone} gone</span> <span class="mark-changed">~ {numbers.changed} changed</span>{" "}
        <span class="mark-new">+ {numbers.new} new</span> <span class="quiet">{numbers.same} the same</span>
        <span class="quiet"> — choose a node to see its counterpart</span>
      </p>
      <div class="pair">
        <section aria-label="Before"><h3>Before</h3>
          <Canvas name="before" label="Before" state={history.before} open={open} onOpen={setOpen} selected={first}
            selectedGroup={side === "before" ? chosen.group : null} onSelect={pickBefore} marks={marks.before} focus={focus.before} />
        </section>
        <section aria-label="After"><h3>After</h3>
          <Canvas name="after" label="After" state={history.after} open={open} onOpen={setOpen} selected={second}
            selectedGroup={side === "after" ? chosen.group : null} onSelect={pickAfter} marks={marks.after} focus={focus.after} />
        </section>
        <aside class="side right">
          {chosen.node !== null && state.has(chosen.node) ? (
            <Inspector data={data} history={history} state={state} version={side === "before" ? 0 : data.versions.length - 1} node={chosen.node}
              change={diff.get(chosen.node)} onGo={goOn(side)}
              counterparts={{ label: side === "before" ? "Became" : "Came from", state: side === "before" ? history.after : history.before, nodes: partners, onGo: goOn(other) }} />
          ) : group ? <GroupInspector group={group} state={state} onGo={goOn(side)} /> : <Hint />}
        </aside>
      </div>
    </div>
  );
}

function marksOf(diff: ReadonlyMap<number, Change>, before: boolean): Map<number, Mark> {
  const marks = new Map<number, Mark>();
  for (const [node, change] of diff) {
    if (change === "changed") marks.set(node, "changed");
    if (change === (before ? "gone" : "new")) marks.set(node, before ? "gone" : "new");
  }
  return marks;
}

function countsOf(diff: ReadonlyMap<number, Change>): Record<Change, number> {
  const found = { same: 0, changed: 0, gone: 0, new: 0 };
  for (const change of diff.values()) found[change] += 1;
  return found;
}

// --- step by step

export function StepsView(props: ViewProps & { moment: number; onMoment: (moment: number) => void }): VNode {
  const { data, history } = props;
  const moments = history.moments;
  const place = Math.min(props.moment, moments.length - 1);
  const moment = moments[place]!;
  const [playing, setPlaying] = useState(false);
  const [side, setSide] = useState<"before" | "after">("after");
  const [node, setNode] = useState<number | null>(null);
  const seen = useMemo(() => momentOf(history, moment), [history, moment]);
  useEffect(() => setNode(null), [place]);
  useEffect(() => {
    if (!playing) return undefined;
    if (place >= moments.length - 1) {
      setPlaying(false);
      return undefined;
    }
    const timer = setTimeout(() => props.onMoment(place + 1), 900);
    return () => clearTimeout(timer);
  }, [playing, place]);
  const pickBefore = useMemo(() => (picked: number | null) => { setSide("before"); setNode(picked); }, []);
  const pickAfter = useMemo(() => (picked: number | null) => { setSide("after"); setNode(picked); }, []);
  const selected = useMemo(() => (node === null ? NONE : new Set([node])), [node]);
  const whole = side === "before" ? seen.before : seen.after;
  const rewritesKept = data.passes.reduce((sum, pass) => sum + pass.kept, 0);
  const rewrites = data.passes.reduce((sum, pass) => sum + pass.rewrites, 0);
  return (
    <div class="steps">
      <div class="step-bar">
        <button type="button" aria-label="Previous step" title="Previous step ( [ )" disabled={place === 0} onClick={() => props.onMoment(place - 1)}>‹</button>
        <button type="button" aria-label={playing ? "Stop" : "Play"} onClick={() => setPlaying(!playing)}>{playing ? "❚❚" : "▶"}</button>
        <button type="button" aria-label="Next step" title="Next step ( ] )" disabled={place >= moments.length - 1} onClick={() => props.onMoment(place + 1)}>›</button>
        <input type="range" aria-label="Step" min={0} max={moments.length - 1} value={place}
          aria-valuetext={describe(data, moment)} onInput={(event) => props.onMoment(Number(event.currentTarget.value))} />
        <output>{place} of {moments.length - 1}</output>
      </div>
      <div class="three">
        <aside class="side" aria-label="Passes"><PassList data={data} history={history} place={place} onMoment={props.onMoment} /></aside>
        <div class="pair">
          {moment.kind === "start" ? (
            <div class="page hint">
              <p>{moments.length === 1 ? "No pass changed anything." : `${plural(moments.length - 1, "step")} lead from the program before to the one after. The slider, the list, or the keys [ and ] go through them.`}</p>
              {rewritesKept < rewrites && <p>The page holds {rewritesKept.toLocaleString("en")} of the {rewrites.toLocaleString("en")} rewrites; what the others did is shown pass by pass.</p>}
            </div>
          ) : (
            <>
              <section aria-label="Before this step"><h3>Before: what matched</h3>
                <Canvas name={`step-${place}-before`} label="Before this step" state={seen.beforePart} flat open={NOTHING} onOpen={() => undefined}
                  selected={side === "before" ? selected : NONE} selectedGroup={null} onSelect={pickBefore} marks={seen.from} focus={null} minimap={false} />
              </section>
              <section aria-label="After this step"><h3>After: what replaced it</h3>
                <Canvas name={`step-${place}-after`} label="After this step" state={seen.afterPart} flat open={NOTHING} onOpen={() => undefined}
                  selected={side === "after" ? selected : NONE} selectedGroup={null} onSelect={pickAfter} marks={seen.to} focus={null} minimap={false} />
              </section>
            </>
          )}
        </div>
        <aside class="side right">
          {moment.kind !== "start" && <StepText data={data} history={history} moment={moment} />}
          {node !== null && whole.has(node) && <Inspector data={data} history={history} state={whole} version={-1} node={node} onGo={setNode} />}
        </aside>
      </div>
    </div>
  );
}

function momentOf(history: History, moment: Moment) {
  const { before, after, from, to } = history.around(moment);
  const beforePart = neighbourhood(before, from);
  const afterPart = neighbourhood(after, to.size > 0 ? to : from);
  const mark = (nodes: ReadonlySet<number>, kind: Mark): Map<number, Mark> => new Map([...nodes].map((node) => [node, kind]));
  return {
    before, after, beforePart, afterPart,
    from: mark(from, moment.kind === "pass" ? "gone" : "match"),
    to: mark(to, "new"),
  };
}

export function describe(data: Data, moment: Moment): string {
  if (moment.kind === "start") return "the program before";
  const pass = data.passes[moment.pass]!.name;
  return moment.kind === "pass" ? `all that ${pass} did` : `${pass}: ${ruleOf(data, moment)}`;
}

/** The rule of a rewrite, or words for values that went without one. */
function ruleOf(data: Data, moment: Moment): string {
  return data.steps[moment.step]!.rule || "unused values removed";
}

function StepText(props: { data: Data; history: History; moment: Moment }): VNode {
  const { data, history, moment } = props;
  const { before, after, from, to } = history.around(moment);
  const differs = (node: number): boolean => before.get(node) !== after.get(node);
  const removed = [...from].filter(differs).map((node) => before.get(node)).filter((record) => record !== undefined);
  const added = [...to].filter(differs).map((node) => after.get(node)).filter((record) => record !== undefined);
  return (
    <article class="inspector">
      <h2>{moment.kind === "rewrite" ? ruleOf(data, moment) : data.passes[moment.pass]!.name}</h2>
      <p class="quiet">{moment.kind !== "rewrite" ? "a pass that works without rules, or did more than the page holds"
        : data.steps[moment.step]!.rule ? `a rule of ${data.passes[moment.pass]!.name}` : `after the rules of ${data.passes[moment.pass]!.name}`}</p>
      <pre class="diff" tabindex={0} aria-label="What changed, as text">
        {removed.slice(0, 60).map((record, index) => <div class="minus" key={`-${index}`}>− {record.name}: {record.type} = {record.text}</div>)}
        {added.slice(0, 60).map((record, index) => <div class="plus" key={`+${index}`}>+ {record.name}: {record.type} = {record.text}</div>)}
      </pre>
    </article>
  );
}

const MOST_STEPS = 300;

function PassList(props: { data: Data; history: History; place: number; onMoment: (moment: number) => void }): VNode {
  const { data, history, place } = props;
  const current = history.moments[place]!;
  return (
    <ol class="pass-list">
      {data.passes.map((pass, index) => {
        const rows = history.moments.map((moment, at) => ({ moment, at })).filter((row) => row.moment.pass === index);
        const start = rows[0];
        return (
          <li key={index} class={rows.length === 0 ? "idle" : ""}>
            <button type="button" class={`row ${current.pass === index ? "chosen" : ""}`} disabled={start === undefined}
              onClick={() => start && props.onMoment(start.at)}>
              <span class="label">{pass.name}</span><span class="quiet">{rows.length === 0 ? "nothing" : plural(pass.rewrites, "rewrite")}{pass.seconds > 0 ? ` · ${seconds(pass.seconds)}` : ""}</span>
            </button>
            {current.pass === index && (
              <ol>{rows.slice(0, MOST_STEPS).map(({ moment, at }) => (
                <li key={at}><button type="button" class={`row ${at === place ? "chosen" : ""}`} aria-current={at === place ? "step" : undefined} onClick={() => props.onMoment(at)}>
                  {moment.kind === "pass" ? "the whole pass" : ruleOf(data, moment)}
                  <span class="quiet">{moment.kind === "rewrite" ? history.nameOf(data.steps[moment.step]!.at) : ""}</span>
                </button></li>
              ))}</ol>
            )}
          </li>
        );
      })}
    </ol>
  );
}
