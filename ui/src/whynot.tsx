/** Why not: where a pattern nearly matches, with the part that failed marked in the pattern and in the graph. */

import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";

import { Canvas, type Mark } from "./canvas";
import type { Data, Finding, PatternNode } from "./data";
import { plural } from "./format";
import { Inspector } from "./inspector";
import { neighbourhood, type History } from "./program";

interface Case {
  kind: "match" | "miss";
  index: number;
}

const NONE: ReadonlySet<number> = new Set();
const NOTHING: ReadonlySet<string> = new Set();

export function WhyNotView(props: { data: Data; history: History }): VNode {
  const { data, history } = props;
  const order = useMemo(() => inOrder(data.findings), [data]);
  const [place, setPlace] = useState(order[0]!);
  const finding = data.findings[place]!;
  const [chosen, setChosen] = useState<Case | null>(null);
  const current = chosen ?? (finding.misses.length > 0 ? { kind: "miss" as const, index: 0 } : finding.matches.length > 0 ? { kind: "match" as const, index: 0 } : null);
  return (
    <div class="three">
      <aside class="side">
        <label class="field">Pattern
          <select value={place} onChange={(event) => { setPlace(Number(event.currentTarget.value)); setChosen(null); }}>
            {order.map((index) => {
              const one = data.findings[index]!;
              return <option key={index} value={index}>{one.pass === "" ? one.title : `${one.pass}: ${one.title}`} ({one.matchCount} / {one.missCount})</option>;
            })}
          </select>
        </label>
        <Cases finding={finding} current={current} onPick={setChosen} />
      </aside>
      {current === null ? <div class="page hint"><p>{absence(finding)}</p></div>
        : <CaseGraph key={`${place}-${current.kind}-${current.index}`} data={data} history={history} finding={finding} current={current} />}
    </div>
  );
}

/** The patterns that came closest to a match without one first, then those that matched and were left alone. */
function inOrder(findings: Finding[]): number[] {
  const weight = (finding: Finding): number => {
    const near = Math.max(0, ...finding.misses.map((miss) => miss.matched / miss.parts));
    return near + (finding.refusedCount > 0 ? 0.2 : 0) - (finding.matchCount + finding.missCount === 0 ? 1 : 0);
  };
  return findings.map((_, index) => index).sort((one, other) => weight(findings[other]!) - weight(findings[one]!));
}

function absence(finding: Finding): string {
  if (finding.absent.length === 0) return "There is no binding to try this pattern at.";
  const near = finding.near.length > 0 ? ` Did you mean ${finding.near.join(" or ")}?` : "";
  return `The program has no call of ${finding.absent.join(" or ")} to try this pattern at.${near}`;
}

function Cases(props: { finding: Finding; current: Case | null; onPick: (chosen: Case) => void }): VNode {
  const { finding, current, onPick } = props;
  const row = (kind: "match" | "miss", index: number, name: string, text: string): VNode => (
    <li key={`${kind}${index}`}>
      <button type="button" class={`row tall ${current?.kind === kind && current.index === index ? "chosen" : ""}`} onClick={() => onPick({ kind, index })}>
        <span class="label">{name}</span><span class="where">{text}</span>
      </button>
    </li>
  );
  const name = (binding: string): string => binding.split(/[:=]/, 1)[0]!.trim();
  return (
    <>
      <h3>{plural(finding.missCount, "near miss", "near misses")}</h3>
      <ol class="pass-list">{finding.misses.map((miss, index) => row("miss", index, name(miss.binding), `${miss.matched} of ${miss.parts} parts · ${miss.kind}: ${miss.reason}`))}</ol>
      <h3>{plural(finding.matchCount, "match", "matches")}{finding.refusedCount > 0 ? `, ${finding.refusedCount} left alone` : ""}</h3>
      <ol class="pass-list">{finding.matches.map((match, index) => row("match", index, name(match.binding), match.reason === null ? "matches" : `${match.kind}: ${match.reason}`))}</ol>
    </>
  );
}

function CaseGraph(props: { data: Data; history: History; finding: Finding; current: Case }): VNode {
  const { data, history, finding, current } = props;
  const state = history.version(finding.version);
  const [node, setNode] = useState<number | null>(null);
  const miss = current.kind === "miss" ? finding.misses[current.index] : undefined;
  const match = current.kind === "match" ? finding.matches[current.index] : undefined;
  const { part, marks } = useMemo(() => {
    const found = new Map<number, Mark>();
    if (match) for (const one of match.matched) found.set(one, "match");
    if (miss) {
      found.set(miss.node, "fail");
      if (miss.tried >= 0) found.set(miss.tried, "near");
    }
    return { part: neighbourhood(state, found.keys()), marks: found };
  }, [state, miss, match]);
  const selected = useMemo(() => (node === null ? NONE : new Set([node])), [node]);
  const pick = useMemo(() => (picked: number | null) => setNode(picked), []);
  const binding = (miss ?? match)!.binding;
  const origins = (miss ?? match)!.origins;
  return (
    <>
      <Canvas name={`why-${finding.title}-${finding.version}-${current.kind}-${current.index}`} label="Around the near miss" state={part} flat open={NOTHING}
        onOpen={() => undefined} selected={selected} selectedGroup={null} onSelect={pick} marks={marks} focus={null} minimap={false} />
      <aside class="side right">
        <article class="inspector">
          <h2>{miss ? "Nearly" : "A match"} <small>{finding.title}</small></h2>
          {miss && <p class="change change-gone">✕ {miss.kind} at {miss.place}: {miss.reason}</p>}
          {miss && <p>{miss.matched} of {miss.parts} parts of the pattern matched.</p>}
          {match?.reason && <p class="change change-changed">{match.kind}: {match.reason}</p>}
          <p><code class="wrap">{binding}</code></p>
          {origins.length > 0 && <p class="quiet">from {origins.join(", ")}</p>}
          <h3>Pattern</h3>
          <ul class="pattern" role="tree" aria-label="Pattern">{finding.roots.map((root) => <PatternTree key={root.id} node={root} failing={miss?.failing ?? -1} />)}</ul>
          {finding.links.length > 0 && <ul class="quiet">{finding.links.map((link, index) => <li key={index}>{link}</li>)}</ul>}
        </article>
        {node !== null && <Inspector data={data} history={history} state={state} version={-1} node={node} onGo={setNode} />}
      </aside>
    </>
  );
}

function PatternTree(props: { node: PatternNode; failing: number }): VNode {
  const { node, failing } = props;
  const fails = node.id === failing;
  return (
    <li role="treeitem" aria-expanded={node.children.length > 0 ? true : undefined}>
      <span class={fails ? "failing" : ""}>{node.role && <span class="quiet">{node.role} </span>}<code>{node.text}</code>{fails && <b> ✕ failed here</b>}</span>
      {node.children.length > 0 && <ul role="group">{node.children.map((child, index) => <PatternTree key={index} node={child} failing={failing} />)}</ul>}
    </li>
  );
}
