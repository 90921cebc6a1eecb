/** Where the time goes, and, for programs on many devices, where the weights lie. */

import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";

import { heatColor } from "./canvas";
import { Bars, type Bar } from "./charts";
import type { Data, Sharding } from "./data";
import { bytes, count, plural, seconds } from "./format";
import type { History } from "./program";

const MOST = 40;

export function TimeView(props: { data: Data; history: History; onNode: (node: number) => void }): VNode {
  const { data, history } = props;
  const [place, setPlace] = useState(data.profiles.length - 1);
  const profile = data.profiles[place]!;
  const total = profile.rows.reduce((sum, row) => sum + row.seconds, 0);
  const single = useMemo(() => [...profile.rows].sort((one, other) => other.seconds - one.seconds).slice(0, MOST), [profile]);
  const state = history.version(profile.version);
  const share = (value: number): string => `${seconds(value)} (${((100 * value) / total).toFixed(1)} %)`;
  const byOp = useMemo(() => summed(profile.rows.map((row) => [row.op, row.seconds])), [profile]);
  const byModule = useMemo(
    () => summed(profile.rows.map((row) => [state.get(row.node)?.path.slice(0, 2).join(" › ") || "(no module)", row.seconds])),
    [profile],
  );
  const bars = (rows: [string, number][]): Bar[] => rows.slice(0, MOST).map(([label, value]) => ({ label, value, text: `${label}: ${share(value)}` }));
  const longest = single[0]?.seconds ?? 1;
  return (
    <div class="page">
      {data.profiles.length > 1 && (
        <label class="field">Measurement
          <select value={place} onChange={(event) => setPlace(Number(event.currentTarget.value))}>
            {data.profiles.map((one, index) => <option key={index} value={index}>{one.label}</option>)}
          </select>
        </label>
      )}
      <p>{profile.label}: {seconds(total)} a run on {profile.engine}, median of {plural(profile.runs, "run")}; {plural(profile.rows.length, "operator")}.</p>
      <section class="columns">
        <Bars title="Longest operators" unit="time" format={seconds}
          bars={single.map((row) => ({ label: `${row.op} ${row.name}`, value: row.seconds, text: `${row.op} ${row.name}: ${share(row.seconds)}`, fill: heatColor(Math.sqrt(row.seconds / longest)) }))}
          onPick={(index) => { const node = single[index]!.node; if (node >= 0) props.onNode(node); }} />
        <div>
          <Bars title="By operator" unit="time" format={seconds} bars={bars(byOp)} />
          <Bars title="By module" unit="time" format={seconds} bars={bars(byModule)} />
        </div>
      </section>
    </div>
  );
}

function summed(rows: [string, number][]): [string, number][] {
  const sums = new Map<string, number>();
  for (const [name, value] of rows) sums.set(name, (sums.get(name) ?? 0) + value);
  return [...sums].sort((one, other) => other[1] - one[1]);
}

export function ShardingView(props: { sharding: Sharding; onNode: (node: number) => void }): VNode {
  const { sharding } = props;
  const exchanged = sharding.collectives.reduce((sum, row) => sum + row.bytes, 0);
  const number = sharding.collectives.reduce((sum, row) => sum + row.count, 0);
  return (
    <div class="page">
      <section class="cards">
        <Card name="Devices" text={count(sharding.count)} note={sharding.devices} />
        <Card name="Weights on each" text={bytes(sharding.memory.weights)} note={`of ${bytes(sharding.memory.whole)} in all`} />
        <Card name="Temporaries on each" text={bytes(sharding.memory.temporaries)} note="as XLA compiled the program" />
        <Card name="Exchanged by each" text={bytes(exchanged)} note={plural(number, "collective")} />
      </section>
      <section>
        <h3>Collectives</h3>
        {sharding.collectives.length === 0 ? <p class="hint">The devices exchange nothing.</p> : (
          <div class="scroll"><table>
            <thead><tr><th scope="col">collective</th><th scope="col">where</th><th scope="col" class="number">count</th><th scope="col" class="number">bytes on each device</th></tr></thead>
            <tbody>{sharding.collectives.map((row, index) => (
              <tr key={index}><td>{row.kind}</td><td><Place name={row.where} node={row.node} onNode={props.onNode} /></td><td class="number">{count(row.count)}</td><td class="number">{bytes(row.bytes)}</td></tr>
            ))}</tbody>
          </table></div>
        )}
      </section>
      <Placed title="Arguments" rows={sharding.arguments} onNode={props.onNode} />
      <Placed title="Weights" rows={sharding.weights} onNode={props.onNode} />
    </div>
  );
}

function Card(props: { name: string; text: string; note: string }): VNode {
  return <div class="card"><h3>{props.name}</h3><p class="big">{props.text}</p><p class="quiet">{props.note}</p></div>;
}

function Place(props: { name: string; node: number; onNode: (node: number) => void }): VNode {
  if (props.node < 0) return <>{props.name}</>;
  return <button type="button" class="link" onClick={() => props.onNode(props.node)}>{props.name}</button>;
}

function Placed(props: { title: string; rows: Sharding["weights"]; onNode: (node: number) => void }): VNode | null {
  if (props.rows.length === 0) return null;
  return (
    <section>
      <h3>{props.title}</h3>
      <div class="scroll"><table>
        <thead><tr><th scope="col">name</th><th scope="col">type</th><th scope="col">where it lies</th></tr></thead>
        <tbody>{props.rows.map((row, index) => (
          <tr key={index}><td><Place name={row.name} node={row.node} onNode={props.onNode} /></td><td><code>{row.type}</code></td><td>{row.placed}</td></tr>
        ))}</tbody>
      </table></div>
    </section>
  );
}
