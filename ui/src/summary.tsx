/** The first page: what the model is, what became of it, and what each pass did. */

import type { VNode } from "preact";
import { useMemo } from "preact/hooks";

import { Bars, type Bar } from "./charts";
import type { Data, Port, Precision } from "./data";
import { amount, bytes, count, plural, seconds } from "./format";
import type { History, State } from "./program";

interface Totals {
  operators: number;
  operations: number;
  bytes: number;
  unknown: number;
  byOp: Map<string, { calls: number; operations: number; bytes: number }>;
}

function totals(state: State): Totals {
  const found: Totals = { operators: 0, operations: 0, bytes: 0, unknown: 0, byOp: new Map() };
  for (const record of state.values()) {
    if (record.kind !== "call" || record.alias >= 0) continue;
    const row = found.byOp.get(record.op) ?? { calls: 0, operations: 0, bytes: 0 };
    row.calls += 1;
    row.operations += record.operations ?? 0;
    row.bytes += record.bytes ?? 0;
    found.byOp.set(record.op, row);
    found.operators += 1;
    found.operations += record.operations ?? 0;
    found.bytes += record.bytes ?? 0;
    found.unknown += record.operations === null ? 1 : 0;
  }
  return found;
}

const MOST_BARS = 16;

export function Summary(props: { data: Data; history: History; onOp: (op: string) => void; onPass: (pass: number) => void }): VNode {
  const { data, history } = props;
  const before = useMemo(() => totals(history.before), [history]);
  const after = useMemo(() => totals(history.after), [history]);
  const changed = history.hasChanges;
  const summary = data.summary;
  return (
    <div class="page">
      <section class="cards">
        <Card name="Operators" before={before.operators} after={changed ? after.operators : null} format={count} />
        <Card name="Arithmetic" before={before.operations} after={changed ? after.operations : null} format={amount} unit=" operations" />
        <Card name="Memory traffic" before={before.bytes} after={changed ? after.bytes : null} format={bytes} />
        <Card name="Weights" before={summary.weights.bytes} after={changed ? (summary.weightsAfter?.bytes ?? null) : null} format={bytes}
          note={`${plural(summary.weights.count, "tensor")}, ${amount(summary.weights.elements)} parameters`} />
      </section>
      {before.unknown > 0 && <p class="hint">{plural(before.unknown, "call")} could not be counted: their sizes are known at run time only.</p>}
      <Verification data={data} />
      {summary.precision !== null && <Precisions done={summary.precision} />}
      <section class="columns">
        <OpChart title="Operators" unit="calls" before={before} after={changed ? after : null} of={(row) => row.calls} format={count} onOp={props.onOp} />
        <OpChart title="Arithmetic by operator" unit="operations" before={before} after={changed ? after : null} of={(row) => row.operations} format={amount} onOp={props.onOp} />
        <OpChart title="Bytes read and written by operator" unit="bytes" before={before} after={changed ? after : null} of={(row) => row.bytes} format={bytes} onOp={props.onOp} />
      </section>
      {data.passes.length > 0 && <Passes data={data} onPass={props.onPass} />}
      <section class="columns">
        <Ports title="Inputs" ports={summary.inputs} />
        <Ports title="Outputs" ports={summary.outputs} />
      </section>
    </div>
  );
}

function Card(props: { name: string; before: number; after: number | null; format: (value: number) => string; unit?: string; note?: string }): VNode {
  const { before, after, format, unit = "" } = props;
  const share = after === null || before === 0 ? null : after / before - 1;
  return (
    <div class="card">
      <h3>{props.name}</h3>
      <p class="big">
        {after !== null && after !== before ? <><span class="old">{format(before)}</span> → {format(after)}{unit}</> : <>{format(before)}{unit}</>}
      </p>
      {share !== null && Math.abs(share) > 0.0005 && <p class={`delta ${share < 0 ? "less" : "more"}`}>{share < 0 ? "▼" : "▲"} {Math.abs(share * 100).toFixed(1)} %</p>}
      {props.note && <p class="quiet">{props.note}</p>}
    </div>
  );
}

function OpChart(props: {
  title: string; unit: string; before: Totals; after: Totals | null;
  of: (row: { calls: number; operations: number; bytes: number }) => number;
  format: (value: number) => string; onOp: (op: string) => void;
}): VNode | null {
  const { before, after, of, format } = props;
  const bars = useMemo(() => {
    const value = (side: Totals, op: string): number => { const row = side.byOp.get(op); return row ? of(row) : 0; };
    const ops = [...new Set([...before.byOp.keys(), ...(after?.byOp.keys() ?? [])])]
      .map((op) => ({ op, old: value(before, op), now: after ? value(after, op) : 0 }))
      .filter((row) => row.old > 0 || row.now > 0)
      .sort((one, other) => Math.max(other.old, other.now) - Math.max(one.old, one.now))
      .slice(0, MOST_BARS);
    return ops.flatMap((row): Bar[] => {
      const bar = (value: number, series?: string): Bar => ({
        label: row.op, value, text: `${row.op}${series ? ` ${series}` : ""}: ${format(value)} ${props.unit}`, ...(series ? { series } : {}),
      });
      return after ? [bar(row.old, "before"), bar(row.now, "after")] : [bar(row.old)];
    });
  }, [before, after]);
  if (bars.length === 0) return null;
  return (
    <Bars title={props.title} unit={props.unit} bars={bars} format={format} onPick={(index) => props.onOp(bars[index]!.label)}
      {...(after ? { series: ["before", "after"] } : {})} />
  );
}

function Verification(props: { data: Data }): VNode | null {
  const verification = props.data.summary.verification;
  if (verification === null) return null;
  const failed = verification.outputs.some((row) => row.problem !== null);
  return (
    <section>
      <h3>Verified against {verification.against} {failed
        ? <span class="change-gone">✕ other values: the output was not written</span> : <span class="ok">✓ {props.data.summary.precision?.attempts.some((one) => one.says === "kept") ? "within the error allowed" : "same values"}</span>}</h3>
      <div class="scroll">
        <table>
          <thead><tr>{["output", "dtype", "shape"].map((name) => <th scope="col" key={name}>{name}</th>)}
            {["largest difference", "relative", "allowed"].map((name) => <th scope="col" class="number" key={name}>{name}</th>)}
            {failed && <th scope="col">problem</th>}</tr></thead>
          <tbody>{verification.outputs.map((row, index) => (
            <tr key={index}><td>{row.name}</td><td>{row.dtype}</td><td>{row.shape}</td>
              {[row.absolute, row.relative, row.tolerance].map((value, at) => <td class="number" key={at}>{value === null ? "not finite" : value.toPrecision(3)}</td>)}
              {failed && <td>{row.problem ?? ""}</td>}</tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}

function Precisions(props: { done: Precision }): VNode {
  const { done } = props;
  const number = (value: number | null, text: (value: number) => string): VNode => <td class="number">{value === null ? "" : text(value)}</td>;
  return (
    <section>
      <h3>Precisions within an error of {done.maxError.toPrecision(3)}{done.errorMeasure !== null && ` (${done.errorMeasure})`}{done.measuredOn !== null && ` on ${done.measuredOn}`} {done.originalKept && <span class="quiet">the model is as it was: none is good enough</span>}</h3>
      <div class="scroll">
        <table>
          <thead><tr>{["precision", "engine"].map((name) => <th scope="col" key={name}>{name}</th>)}
            {["layers", "error", "same choice", "least time", "times as fast"].map((name) => <th scope="col" class="number" key={name}>{name}</th>)}
            <th scope="col">why</th></tr></thead>
          <tbody>{done.attempts.map((row, index) => (
            <tr key={index}><td>{row.name}</td><td>{row.engine}</td>
              <td class="number">{row.layers === 0 ? "" : `${count(row.few)} of ${count(row.layers)}`}</td>
              {number(row.error, (value) => value.toPrecision(2))}
              {number(row.agreement, (value) => `${(value * 100).toFixed(1)} %`)}
              {number(row.seconds, seconds)}
              {number(row.timesAsFast, (value) => row.noise === null ? `${value.toFixed(2)} expected` : `${value.toFixed(2)} ± ${(value * row.noise).toFixed(2)}`)}
              <td>{row.says}</td></tr>
          ))}</tbody>
        </table>
      </div>
      {done.notes.map((note) => <p class="quiet" key={note}>{note}.</p>)}
      {done.layers.length > 0 && (
        <details><summary>{plural(done.layers.length, "layer")} of {done.layersOf}</summary>
          <div class="scroll">
            <table>
              <thead><tr><th scope="col">layer</th><th scope="col">precision</th>{["error of it alone", "expected time"].map((name) => <th scope="col" class="number" key={name}>{name}</th>)}</tr></thead>
              <tbody>{done.layers.map((layer, index) => (
                <tr key={index}><td><code>{layer.name}</code></td><td>{layer.precision}</td>{number(layer.error, (value) => value.toPrecision(2))}{number(layer.seconds, seconds)}</tr>
              ))}</tbody>
            </table>
          </div>
        </details>
      )}
    </section>
  );
}

function Passes(props: { data: Data; onPass: (pass: number) => void }): VNode {
  const { data } = props;
  const total = data.passes.reduce((sum, pass) => sum + pass.seconds, 0);
  return (
    <section>
      <h3>Passes {total > 0 && <span class="quiet">{seconds(total)} in all</span>}</h3>
      <div class="scroll">
        <table>
          <thead><tr><th scope="col">pass</th><th scope="col" class="number">rewrites</th><th scope="col" class="number">left</th><th scope="col" class="number">time</th><th scope="col">operators whose number changed</th></tr></thead>
          <tbody>{data.passes.map((pass, index) => (
            <tr key={index}>
              <td><button type="button" class="link" onClick={() => props.onPass(index)}>{pass.name}</button></td>
              <td class="number">
                {pass.rules.length === 0 ? "0" : (
                  <details><summary>{count(pass.rewrites)}</summary>
                    <ul class="left-alone">{pass.rules.map(([rule, number]) => <li key={rule}><code>{rule}</code> {count(number)}</li>)}</ul>
                  </details>
                )}
              </td>
              <td class="number">
                {pass.declinedCount === 0 ? "0" : (
                  <details><summary>{count(pass.declinedCount)}</summary>
                    <ul class="left-alone">{pass.declined.map((one, at) => <li key={at}><code>{one.binding}</code> ({one.rule}): {one.reason}</li>)}</ul>
                  </details>
                )}
              </td>
              <td class="number">{pass.seconds > 0 ? seconds(pass.seconds) : ""}</td>
              <td>{pass.ops.length === 0 ? <span class="quiet">none</span> : pass.ops.map(([op, old, now]) => (
                <span class="op-change" key={op}>{op} <span class="quiet">{old} →</span> {now}</span>))}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}

function Ports(props: { title: string; ports: Port[] }): VNode {
  return (
    <section>
      <h3>{props.title}</h3>
      <div class="scroll">
        <table>
          <thead><tr><th scope="col">name</th><th scope="col">type</th></tr></thead>
          <tbody>{props.ports.map((port, index) => <tr key={index}><td>{port.name}</td><td><code>{port.type}</code></td></tr>)}</tbody>
        </table>
      </div>
    </section>
  );
}
