/** All that is known of one node: what it computes, where it came from, what made it, and its line of the program. */

import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";

import type { Data, Rec, Text } from "./data";
import { amount, bytes, plural, seconds } from "./format";
import { nodesBelow, type Group } from "./hierarchy";
import { resolve, usersOf, type Change, type History, type State } from "./program";

interface Props {
  data: Data;
  history: History;
  state: State;
  /** The version that `state` is, for its text; -1 where it is a state between two. */
  version: number;
  node: number;
  change?: Change | undefined;
  counterparts?: { label: string; state: State; nodes: number[]; onGo: (node: number) => void } | undefined;
  onGo: (node: number) => void;
}

const MOST_LINKS = 40;

export function Inspector(props: Props): VNode {
  const { data, history, state, node, change, counterparts, onGo } = props;
  const record = state.get(node);
  if (record === undefined) return <p class="hint">This value is not part of this program.</p>;
  const operands = [...new Set(record.operands.map((operand) => resolve(state, operand)))];
  const users = usersOf(state).get(node) ?? [];
  const rewrites = history.rewritesOf(node);
  const pass = history.passOf(node);
  const text = data.texts.get(props.version);
  return (
    <article class="inspector" aria-label={`${record.op} ${record.name}`}>
      <h2><span class={`swatch family-${record.family}`} />{record.op} <small>{record.name}</small></h2>
      {change && change !== "same" && <p class={`change change-${change}`}>{CHANGES[change]}</p>}
      <dl>
        <Row name="Type"><code>{record.type}</code></Row>
        <Row name="Computes"><code class="wrap">{record.text}</code></Row>
        {record.weights.length > 0 && <Row name="Weights"><ul>{record.weights.map((weight, index) => <li key={index}><code>{weight}</code></li>)}</ul></Row>}
        {record.path.length > 0 && <Row name="Module">{record.path.join(" › ")}</Row>}
        <Row name="Origin">{record.origins.length === 0 ? <em>none is recorded</em> : <Origins origins={record.origins} />}</Row>
        {record.operations !== null && record.bytes !== null && (
          <Row name="Cost">{amount(record.operations)} operations, {bytes(record.bytes)} read and written</Row>
        )}
        <Times data={data} node={node} version={props.version} />
        {operands.length > 0 && <Row name="Reads"><Links state={state} nodes={operands} onGo={onGo} /></Row>}
        <Row name="Read by">{users.length === 0 ? <em>nothing</em> : <Links state={state} nodes={users} onGo={onGo} />}</Row>
        {rewrites.length > 0 && (
          <Row name="Made by">
            <ul>{rewrites.slice(-MOST_LINKS).map((step, index) => (
              <li key={index}>rule <code>{step.rule}</code> of {data.passes[step.pass]!.name}, from {plural(step.matched.length, "binding")}</li>
            ))}</ul>
          </Row>
        )}
        {rewrites.length === 0 && pass && <Row name="Made by">pass {pass.name}</Row>}
        {counterparts && (
          <Row name={counterparts.label}>
            {counterparts.nodes.length === 0
              ? <em>no counterpart: nothing there computes this any more</em>
              : <Links state={counterparts.state} nodes={counterparts.nodes} onGo={counterparts.onGo} />}
          </Row>
        )}
      </dl>
      {text && <Lines text={text} node={node} />}
    </article>
  );
}

const CHANGES: Record<Change, string> = {
  same: "unchanged",
  changed: "~ computed in another way after the passes",
  gone: "− gone after the passes",
  new: "+ new: the passes made it",
};

function Row(props: { name: string; children: ComponentChildren }): VNode {
  return <><dt>{props.name}</dt><dd>{props.children}</dd></>;
}

function Origins(props: { origins: string[] }): VNode {
  const shown = props.origins.slice(0, MOST_LINKS);
  return (
    <ul>
      {shown.map((origin, index) => <li key={index}><code class="wrap">{origin}</code></li>)}
      {props.origins.length > shown.length && <li>and {props.origins.length - shown.length} more</li>}
    </ul>
  );
}

export function Links(props: { state: State; nodes: number[]; onGo: (node: number) => void }): VNode {
  const shown = props.nodes.slice(0, MOST_LINKS);
  return (
    <ul class="links">
      {shown.map((node) => {
        const record = props.state.get(node);
        return record && (
          <li key={node}>
            <button type="button" class="link" onClick={() => props.onGo(node)}>
              <span class={`swatch family-${record.family}`} />{record.op} <span class="quiet">{record.name}</span>
            </button>
          </li>
        );
      })}
      {props.nodes.length > shown.length && <li class="quiet">and {props.nodes.length - shown.length} more</li>}
    </ul>
  );
}

function Times(props: { data: Data; node: number; version: number }): VNode | null {
  const rows = props.data.profiles
    .filter((profile) => profile.version === props.version)
    .flatMap((profile) => {
      const found = profile.rows.filter((row) => row.node === props.node);
      return found.length === 0 ? [] : [{ profile, value: found.reduce((sum, row) => sum + row.seconds, 0) }];
    });
  if (rows.length === 0) return null;
  return <Row name="Time">{rows.map(({ profile, value }) => `${seconds(value)} on ${profile.engine}`).join(", ")}</Row>;
}

const AROUND = 7;

/** The text of the program around a node's line. */
function Lines(props: { text: Text; node: number }): VNode {
  const { lines, lineOf } = props.text;
  const [whole, setWhole] = useState(false);
  const here = lineOf.get(props.node);
  if (here === undefined) return <p class="hint">This value has no line of its own.</p>;
  const first = whole ? Math.max(0, here - 400) : Math.max(0, here - AROUND);
  const shown = lines.slice(first, here + (whole ? 400 : AROUND + 1));
  return (
    <section class="text">
      <h3>Program, line {here + 1} of {lines.length}
        <button type="button" class="link" onClick={() => setWhole(!whole)}>{whole ? "less" : "more"}</button>
      </h3>
      <pre tabindex={0} aria-label="Program text">
        {shown.map((text, index) => {
          const at = first + index;
          return <div key={at} class={at === here ? "here" : ""}><span class="line-number">{at + 1}</span>{text}</div>;
        })}
      </pre>
    </section>
  );
}

/** What a module holds. */
export function GroupInspector(props: { group: Group; onGo: (node: number) => void; state: State }): VNode {
  const records = nodesBelow(props.group);
  const byOp = new Map<string, Rec[]>();
  for (const record of records) byOp.set(record.op, [...(byOp.get(record.op) ?? []), record]);
  const rows = [...byOp].sort((one, other) => other[1].length - one[1].length);
  const operations = records.reduce((sum, record) => sum + (record.operations ?? 0), 0);
  const moved = records.reduce((sum, record) => sum + (record.bytes ?? 0), 0);
  return (
    <article class="inspector" aria-label={`module ${props.group.label}`}>
      <h2>{props.group.label} <small>module</small></h2>
      <dl>
        <Row name="Operators">{plural(records.length, "operator")}</Row>
        <Row name="Cost">{amount(operations)} operations, {bytes(moved)} read and written</Row>
      </dl>
      <table>
        <thead><tr><th scope="col">operator</th><th scope="col">calls</th></tr></thead>
        <tbody>{rows.map(([op, found]) => (
          <tr key={op}>
            <td><button type="button" class="link" onClick={() => props.onGo(found[0]!.node)}><span class={`swatch family-${found[0]!.family}`} />{op}</button></td>
            <td class="number">{found.length}</td>
          </tr>
        ))}</tbody>
      </table>
    </article>
  );
}
