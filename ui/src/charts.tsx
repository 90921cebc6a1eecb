/** Charts by Observable Plot, each with a table of the same numbers for those who cannot see it. */

import * as Plot from "@observablehq/plot";
import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Bar {
  label: string;
  value: number;
  /** What the tip and the table say of it. */
  text: string;
  series?: string;
  fill?: string;
}

interface Props {
  title: string;
  unit: string;
  bars: Bar[];
  format: (value: number) => string;
  series?: string[];
  onPick?: (index: number) => void;
}

/** Horizontal bars in the order given. */
export function Bars(props: Props): VNode {
  const { bars, series, title, format, onPick } = props;
  const frame = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null || bars.length === 0) return undefined;
    const draw = (): void => element.replaceChildren(plot(props, element.clientWidth));
    const observer = new ResizeObserver(draw);
    observer.observe(element);
    draw();
    return () => observer.disconnect();
  }, [bars]);
  const pick = (event: MouseEvent): void => {
    const rect = (event.target as Element).closest("[data-bar]");
    if (rect !== null) onPick?.(Number((rect as SVGElement).dataset["bar"]));
  };
  return (
    <figure class="chart">
      <figcaption>
        {title}
        {series && <span class="legend">{series.map((name, index) => <span key={name} class={`series-${index}`}>{name}</span>)}</span>}
      </figcaption>
      <div ref={frame} role="img" aria-label={`${title}. The table below has the same numbers.`} onClick={pick} class={onPick ? "pickable" : ""} />
      <details>
        <summary>As a table</summary>
        <table>
          <thead><tr><th scope="col">operator</th>{series && <th scope="col">program</th>}<th scope="col">{props.unit}</th></tr></thead>
          <tbody>
            {bars.map((bar, index) => (
              <tr key={index}>
                <td>{onPick ? <button type="button" class="link" onClick={() => onPick(index)}>{bar.label}</button> : bar.label}</td>
                {series && <td>{bar.series}</td>}
                <td class="number">{format(bar.value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </figure>
  );
}

function plot(props: Props, width: number): Element {
  const { bars, series, format, onPick } = props;
  const rows = bars.map((bar, index) => ({ ...bar, index, row: series ? bar.label : `${index}`, series: bar.series ?? "" }));
  const labels = new Map(rows.map((row) => [row.row, row.label]));
  const shorten = (row: string): string => {
    const label = labels.get(row) ?? "";
    return label.length > 22 ? `${label.slice(0, 21)}…` : label;
  };
  const names = [...new Set(rows.map((row) => row.row))];
  const bar = {
    x: "value",
    fill: (row: (typeof rows)[number]) => row.fill ?? `var(--series-${series ? series.indexOf(row.series) : 1})`,
    title: "text",
    rx: 2,
  };
  const tip = { x: "value", text: (row: (typeof rows)[number]) => format(row.value), textAnchor: "start", dx: 4, fill: "currentColor" } as const;
  const marks = series
    ? [Plot.barX(rows, { ...bar, y: "series", fy: "row" }), Plot.text(rows, { ...tip, y: "series", fy: "row" })]
    : [Plot.barX(rows, { ...bar, y: "row" }), Plot.text(rows, { ...tip, y: "row" })];
  const shared = {
    width: Math.max(width, 260),
    marginLeft: 160,
    marginRight: 70,
    marginTop: 4,
    marginBottom: 8,
    style: { background: "none", fontSize: "12px", overflow: "visible" },
    x: { axis: null, domain: [0, Math.max(...rows.map((row) => row.value), 1e-12)] },
  } as const;
  const made = series
    ? Plot.plot({ ...shared, height: names.length * (series.length * 15 + 8) + 16, y: { axis: null, domain: series },
        fy: { axis: "left", label: null, domain: names, tickFormat: shorten, padding: 0.15, tickSize: 0 }, marks })
    : Plot.plot({ ...shared, height: names.length * 22 + 16,
        y: { label: null, domain: names, tickFormat: shorten, tickSize: 0 }, marks });
  if (onPick) {
    made.querySelectorAll("[aria-label='bar'] rect").forEach((rect, index) => rect.setAttribute("data-bar", String(index)));
  }
  return made;
}
