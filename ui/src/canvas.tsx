/** A graph on the screen: pan, zoom, minimap, selection by mouse and by keyboard. */

import { select } from "d3-selection";
import { curveBasis, line as lineShape } from "d3-shape";
import { zoom, zoomIdentity, type D3ZoomEvent, type ZoomBehavior } from "d3-zoom";
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Rec } from "./data";
import { firstOpen, groupsAround, hierarchyOf, idOf, nodesBelow, type Group, type Hierarchy } from "./hierarchy";
import { clip, groupSubtitle, Layouter, subtitleOf, titleOf, type Box, type Line, type Picture } from "./layout";
import type { State } from "./program";

export const layouter = new Layouter();

/** How a node is marked, besides being selected. */
export type Mark = "gone" | "new" | "changed" | "match" | "fail" | "near";

const MARKS: Record<Mark, { sign: string; text: string }> = {
  gone: { sign: "−", text: "removed" },
  new: { sign: "+", text: "new" },
  changed: { sign: "~", text: "changed" },
  match: { sign: "●", text: "matched" },
  fail: { sign: "✕", text: "did not match" },
  near: { sign: "?", text: "came closest" },
};

export interface Focus {
  node: number;
  /** Another number makes the graph go to the same node again. */
  serial: number;
}

type Open = ReadonlySet<string>;

/** The groups to open, or what makes them of those that are open; null stands for those open at first. */
export type OpenChange = Open | ((old: Open | null) => Open);

interface Props {
  /** Names the program; pictures of the same name and the same open groups are the same. */
  name: string;
  label: string;
  state: State;
  open: ReadonlySet<string> | null;
  onOpen: (open: OpenChange) => void;
  selected: ReadonlySet<number>;
  selectedGroup: string | null;
  onSelect: (node: number | null, group: string | null) => void;
  marks?: ReadonlyMap<number, Mark>;
  heat?: ((records: Rec[]) => number | null) | undefined;
  focus: Focus | null;
  minimap?: boolean;
  /** Draw no modules: for a part of a program, whose modules would each be torn in two. */
  flat?: boolean;
}

interface View {
  x: number;
  y: number;
  k: number;
}

const path = lineShape<{ x: number; y: number }>()
  .x((point) => point.x)
  .y((point) => point.y)
  .curve(curveBasis);

/** The pixels on the left that the buttons take. */
const TOOLS = 46;

/** Boxes beyond this number are drawn only where they can be seen. */
const MOST_DRAWN = 300;

export function Canvas(props: Props): VNode {
  const { name, state, selected, selectedGroup, onSelect, onOpen, marks, heat, focus } = props;
  const hierarchy = useMemo(() => hierarchyOf(state, props.flat), [state, props.flat]);
  const initial = useMemo(() => firstOpen(hierarchy), [hierarchy]);
  const open = props.open ?? initial;
  const [picture, setPicture] = useState<Picture | null>(null);
  const [failure, setFailure] = useState("");
  const [view, setView] = useState<View>({ x: 0, y: 0, k: 1 });
  const latest = useRef(view);
  latest.current = view;
  const svg = useRef<SVGSVGElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const size = useSize(frame);
  const behavior = useZoom(svg, setView);
  const keep = useRef<{ id: string; x: number; y: number } | null>(null);
  const shownName = useRef("");
  const wanted = useRef<Focus | null>(null);

  useEffect(() => {
    let current = true;
    layouter
      .picture(name, state, hierarchy, open)
      .then((made) => current && (setPicture(made), setFailure("")))
      .catch((error: unknown) => current && setFailure(String(error)));
    return () => {
      current = false;
    };
  }, [name, state, hierarchy, open]);

  const goTo = (next: View): void => {
    if (svg.current !== null) {
      behavior.transform(select(svg.current), zoomIdentity.translate(next.x, next.y).scale(next.k));
    }
  };
  const fit = (made: Picture): void => {
    const wide = size.width - TOOLS;
    const scale = Math.min(wide / (made.width + 20), size.height / (made.height + 40), 1.2);
    // A long graph is read from its top; it is never drawn too small to read.
    const k = Math.max(scale, Math.min(0.62, wide / (made.width + 20)), 0.12);
    const y = made.height * k > size.height ? 16 : (size.height - made.height * k) / 2;
    goTo({ x: TOOLS + (wide - made.width * k) / 2, y, k });
  };
  const centre = (box: Box): void => {
    const k = Math.max(view.k, 0.75);
    goTo({ x: size.width / 2 - (box.x + box.width / 2) * k, y: size.height / 2 - (box.y + Math.min(box.height, 200) / 2) * k, k });
  };

  useLayoutEffect(() => {
    if (picture === null || size.width === 0) return;
    if (shownName.current !== name) {
      shownName.current = name;
      fit(picture);
    } else if (keep.current !== null) {
      // The box that was opened or closed stays where it is on the screen.
      const box = picture.byId.get(keep.current.id);
      if (box !== undefined) goTo({ x: keep.current.x - box.x * view.k, y: keep.current.y - box.y * view.k, k: view.k });
      keep.current = null;
    }
    if (wanted.current !== null) {
      const box = boxOf(picture, hierarchy, wanted.current.node);
      if (box?.record?.node === wanted.current.node) {
        wanted.current = null;
        centre(box);
      }
    }
  }, [picture, size.width > 0]);

  useEffect(() => {
    if (focus === null) return;
    const closed = groupsAround(hierarchy, focus.node).filter((group) => !open.has(group.id));
    if (!hierarchy.home.has(focus.node)) return;
    wanted.current = focus;
    if (closed.length > 0) {
      // Two graphs may share what is open, and both may open something now.
      onOpen((old) => new Set([...(old ?? initial), ...closed.map((group) => group.id)]));
    } else if (picture !== null) {
      const box = boxOf(picture, hierarchy, focus.node);
      if (box !== undefined) {
        wanted.current = null;
        centre(box);
      }
    }
  }, [focus?.serial, focus?.node, hierarchy]);

  const toggle = (group: Group, box: Box): void => {
    const now = latest.current;
    keep.current = { id: box.id, x: now.x + box.x * now.k, y: now.y + box.y * now.k };
    const next = new Set(open);
    if (next.has(group.id)) next.delete(group.id);
    else next.add(group.id);
    onOpen(next);
  };

  const current = picture === null ? undefined : selectedBox(picture, hierarchy, selected, selectedGroup);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (picture === null || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = keyTarget(event.key, picture, current);
    if (next !== undefined) {
      event.preventDefault();
      onSelect(next.record?.node ?? null, next.group?.id ?? null);
      reveal(next, view, size, goTo);
      return;
    }
    const group = current?.group ?? (current?.record ? hierarchy.home.get(current.record.node) : undefined);
    if ((event.key === "Enter" || event.key === " ") && current?.group) toggle(current.group, current);
    else if (event.key === "c" && group?.parent) {
      const box = picture.byId.get(idOf(group));
      if (box !== undefined && open.has(group.id)) {
        toggle(group, box);
        onSelect(null, group.id);
      }
    } else if (event.key === "f" || event.key === "0") fit(picture);
    else if (event.key === "+" || event.key === "=") zoomBy(1.3);
    else if (event.key === "-") zoomBy(1 / 1.3);
    else if (event.key === "Escape") onSelect(null, null);
    else return;
    event.preventDefault();
  };
  const zoomBy = (factor: number): void => {
    if (svg.current !== null) behavior.scaleBy(select(svg.current), factor);
  };

  // Large pictures are drawn where they are looked at, and anew only when that has moved by a good part of the screen.
  const large = picture !== null && picture.boxes.length > MOST_DRAWN;
  const place = large ? `${Math.round(view.x / 200)},${Math.round(view.y / 200)},${Math.round(Math.log2(view.k) * 4)}` : "";
  const drawn = useMemo(() => (picture === null ? null : inView(picture, view, size)), [picture, place, size]);
  const groupMarks = useMemo(() => marksOfGroups(hierarchy, marks), [hierarchy, marks]);
  const heats = useMemo(() => heatsOf(picture, heat), [picture, heat]);
  const labelled = view.k > 0.42;
  const content = useMemo(
    () => (
      <>
        {drawn?.open.map((box) => (
          <OpenGroup key={box.id} id={domId(name, box.id)} box={box} chosen={box === current}
            onSelect={onSelect} onToggle={toggle} />
        ))}
        {drawn?.lines.map((line) => (
          <Edge key={line.id} line={line} lit={current !== undefined && (line.from === current.id || line.to === current.id)}
            labelled={labelled} />
        ))}
        {drawn?.boxes.map((box) => (
          <Node key={box.id} id={domId(name, box.id)} box={box} chosen={box === current || isChosen(box, selected)}
            mark={box.record ? marks?.get(box.record.node) : groupMarks.get(box.group!.id)}
            heat={heats.get(box.id) ?? null} onSelect={onSelect} onToggle={toggle} />
        ))}
      </>
    ),
    [drawn, current, selected, marks, groupMarks, heats, labelled, open, onSelect],
  );
  const title = `${props.label}: ${hierarchy.root.size.toLocaleString("en")} operators`;
  return (
    <div class="canvas" ref={frame}>
      <svg
        ref={svg}
        class="graph"
        tabindex={0}
        role="application"
        aria-roledescription="graph"
        aria-label={`${title}. Arrow keys go along the edges, Enter opens a module, C closes it, F shows all.`}
        aria-activedescendant={current === undefined ? undefined : domId(name, current.id)}
        onKeyDown={onKeyDown}
        onClick={(event) => event.target === svg.current && onSelect(null, null)}
      >
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0,0.8 L7,4 L0,7.2 z" class="arrow" />
          </marker>
        </defs>
        <g transform={`translate(${view.x},${view.y}) scale(${view.k})`}>
          {content}
        </g>
      </svg>
      {picture === null && failure === "" && <div class="busy" role="status">Laying out…</div>}
      {failure !== "" && <div class="busy" role="alert">The layout failed: {failure}</div>}
      <div class="tools" role="toolbar" aria-label="Graph">
        <button type="button" title="Zoom in (+)" aria-label="Zoom in" onClick={() => zoomBy(1.3)}>+</button>
        <button type="button" title="Zoom out (−)" aria-label="Zoom out" onClick={() => zoomBy(1 / 1.3)}>−</button>
        <button type="button" title="Show all (F)" aria-label="Show all" onClick={() => picture && fit(picture)}>
          <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true"><path d="M1 5V1h4M9 1h4v4M13 9v4H9M5 13H1V9" fill="none" stroke="currentColor" stroke-width="1.6" /></svg>
        </button>
        <button type="button" title="Close all modules" aria-label="Close all modules" onClick={() => {
          shownName.current = "";
          onOpen(new Set());
        }}>
          <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true"><path d="M1 1h12v12H1zM4 7h6" fill="none" stroke="currentColor" stroke-width="1.6" /></svg>
        </button>
      </div>
      {props.minimap !== false && picture !== null && <Minimap picture={picture} view={view} size={size} onGo={goTo} />}
    </div>
  );
}

function domId(name: string, id: string): string {
  return `${name}-${id}`;
}

function isChosen(box: Box, selected: ReadonlySet<number>): boolean {
  return box.record !== null && selected.has(box.record.node);
}

/** The box in which a node is seen: its own, or that of the closed group around it. */
function boxOf(picture: Picture, hierarchy: Hierarchy, node: number): Box | undefined {
  const own = picture.byId.get(`n${node}`);
  if (own !== undefined) return own;
  return groupsAround(hierarchy, node).map((group) => picture.byId.get(idOf(group))).find((box) => box !== undefined);
}

function selectedBox(
  picture: Picture, hierarchy: Hierarchy, selected: ReadonlySet<number>, group: string | null,
): Box | undefined {
  if (group !== null) return picture.byId.get(`g${group}`);
  const [first] = selected;
  return first === undefined ? undefined : boxOf(picture, hierarchy, first);
}

/** The share of each box in the hottest one that is seen, on a scale on which small ones still differ. */
function heatsOf(picture: Picture | null, heat: Props["heat"]): Map<string, number> {
  const found = new Map<string, number>();
  if (picture === null || heat === undefined) return found;
  for (const box of picture.boxes) {
    const value = box.open ? null : heat(box.record ? [box.record] : nodesBelow(box.group!));
    if (value !== null) found.set(box.id, value);
  }
  const most = Math.max(...found.values(), 1e-12);
  for (const [id, value] of found) found.set(id, Math.sqrt(value / most));
  return found;
}

/** How closed groups are marked: as what is inside, or as changed where that is of several kinds. */
function marksOfGroups(hierarchy: Hierarchy, marks: ReadonlyMap<number, Mark> | undefined): Map<string, Mark> {
  const found = new Map<string, Mark>();
  for (const [node, mark] of marks ?? []) {
    for (const group of groupsAround(hierarchy, node)) {
      const known = found.get(group.id);
      found.set(group.id, known === undefined || known === mark ? mark : "changed");
    }
  }
  return found;
}

function Node(props: {
  id: string;
  box: Box;
  chosen: boolean;
  mark: Mark | undefined;
  heat: number | null;
  onSelect: Props["onSelect"];
  onToggle: (group: Group, box: Box) => void;
}): VNode {
  const { box, chosen, mark, onSelect, onToggle } = props;
  const { record, group } = box;
  const title = record ? titleOf(record) : clip(group!.label, 44);
  const subtitle = record ? subtitleOf(record) : groupSubtitle(group!);
  const heat = props.heat;
  const family = record ? `family-${record.family}` : "module";
  const said = mark === undefined ? "" : `, ${MARKS[mark].text}`;
  const style = heat === null ? undefined : { fill: heatColor(heat) };
  return (
    <g
      id={props.id}
      class={`node ${family} ${chosen ? "chosen" : ""} ${mark ? `mark-${mark}` : ""} ${heat === null ? "" : heat > 0.55 ? "hot" : "warm"}`}
      transform={`translate(${box.x},${box.y})`}
      role="button"
      aria-label={record ? `${record.op} ${record.name}, ${record.type}${said}` : `module ${group!.label}, ${subtitle}, closed${said}`}
      onClick={() => onSelect(record?.node ?? null, group?.id ?? null)}
      onDblClick={() => group && onToggle(group, box)}
    >
      <rect class="body" width={box.width} height={box.height} rx="7" style={style} />
      <rect class="stripe" width="5" height={box.height} rx="2.5" />
      <text class="title" x="15" y={box.height / 2 - 4}>{title}</text>
      <text class="subtitle" x="15" y={box.height / 2 + 12}>{subtitle}</text>
      {group && (
        <g class="opener" transform={`translate(${box.width - 24},${box.height / 2 - 9})`}
          onClick={(event) => { event.stopPropagation(); onToggle(group, box); }}>
          <rect width="18" height="18" rx="4" />
          <text x="9" y="13.5">+</text>
        </g>
      )}
      {mark && (
        <g class="badge" transform={`translate(${box.width - 2},0)`}>
          <circle r="9" />
          <text y="4">{MARKS[mark].sign}</text>
        </g>
      )}
    </g>
  );
}

function OpenGroup(props: {
  id: string;
  box: Box;
  chosen: boolean;
  onSelect: Props["onSelect"];
  onToggle: (group: Group, box: Box) => void;
}): VNode {
  const { box, chosen, onSelect, onToggle } = props;
  const group = box.group!;
  return (
    <g id={props.id} class={`open-group depth-${box.depth % 2} ${chosen ? "chosen" : ""}`} role="button"
      transform={`translate(${box.x},${box.y})`} aria-label={`module ${group.label}, ${groupSubtitle(group)}, open`}
      onClick={() => onSelect(null, group.id)} onDblClick={() => onToggle(group, box)}>
      <rect class="frame" width={box.width} height={box.height} rx="10" />
      <g class="opener" transform="translate(10,9)" onClick={(event) => { event.stopPropagation(); onToggle(group, box); }}>
        <rect width="18" height="18" rx="4" />
        <text x="9" y="13.5">−</text>
      </g>
      <text class="title" x="36" y="23">{clip(group.label, Math.min(44, Math.floor((box.width - 44) / 7.6)))}</text>
    </g>
  );
}

function Edge(props: { line: Line; lit: boolean; labelled: boolean }): VNode | null {
  const { line } = props;
  if (line.points.length < 2) return null;
  return (
    <g class={`edge ${props.lit ? "lit" : ""}`}>
      <path d={path(line.points) ?? ""} marker-end="url(#arrow)" />
      {(props.labelled || props.lit) && line.labelAt && <text x={line.labelAt.x} y={line.labelAt.y}>{line.label}</text>}
    </g>
  );
}

const MAP_WIDTH = 150;
const MAP_HEIGHT = 170;

function Minimap(props: { picture: Picture; view: View; size: Size; onGo: (view: View) => void }): VNode | null {
  const { picture, view, size, onGo } = props;
  const scale = Math.min(MAP_WIDTH / Math.max(picture.width, 1), MAP_HEIGHT / Math.max(picture.height, 1));
  const boxes = useMemo(
    () => picture.boxes.filter((box) => box.width * scale > 0.7 && (picture.boxes.length < 1500 || box.group !== null)),
    [picture, scale],
  );
  if (picture.boxes.length < 4) return null;
  const go = (event: PointerEvent): void => {
    if (event.buttons === 0) return;
    const target = event.currentTarget as SVGSVGElement;
    const place = target.getBoundingClientRect();
    const x = (event.clientX - place.left) / scale;
    const y = (event.clientY - place.top) / scale;
    onGo({ x: size.width / 2 - x * view.k, y: size.height / 2 - y * view.k, k: view.k });
  };
  return (
    <svg class="minimap" width={picture.width * scale} height={picture.height * scale} aria-hidden="true"
      onPointerDown={go} onPointerMove={go}>
      <g transform={`scale(${scale})`}>
        {boxes.map((box) => (
          <rect key={box.id} class={box.open ? "open" : "closed"} x={box.x} y={box.y} width={box.width} height={box.height} rx="6" />
        ))}
        <rect class="window" x={-view.x / view.k} y={-view.y / view.k} width={size.width / view.k} height={size.height / view.k} />
      </g>
    </svg>
  );
}

// --- what the canvas needs of the screen

interface Size {
  width: number;
  height: number;
}

function useSize(frame: { readonly current: HTMLDivElement | null }): Size {
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const update = (): void => setSize({ width: element.clientWidth, height: element.clientHeight });
    const observer = new ResizeObserver(update);
    observer.observe(element);
    update();
    return () => observer.disconnect();
  }, []);
  return size;
}

function useZoom(
  svg: { readonly current: SVGSVGElement | null }, onView: (view: View) => void,
): ZoomBehavior<SVGSVGElement, unknown> {
  const behavior = useMemo(() => zoom<SVGSVGElement, unknown>().scaleExtent([0.03, 3]), []);
  useLayoutEffect(() => {
    const element = svg.current;
    if (element === null) return undefined;
    behavior.on("zoom", (event: D3ZoomEvent<SVGSVGElement, unknown>) => onView(event.transform));
    select(element).call(behavior).on("dblclick.zoom", null);
    return () => void select(element).on(".zoom", null);
  }, []);
  return behavior;
}

/** The part of a picture that is on the screen, with a margin; all of a small one. */
function inView(picture: Picture, view: View, size: Size): { open: Box[]; boxes: Box[]; lines: Line[] } {
  const all = picture.boxes.length <= MOST_DRAWN;
  const margin = 300 / view.k;
  const left = -view.x / view.k - margin;
  const top = -view.y / view.k - margin;
  const right = left + size.width / view.k + 2 * margin;
  const bottom = top + size.height / view.k + 2 * margin;
  const sees = (x: number, y: number, width: number, height: number): boolean =>
    all || (x < right && x + width > left && y < bottom && y + height > top);
  const boxes = picture.boxes.filter((box) => sees(box.x, box.y, box.width, box.height));
  const lines = picture.lines.filter((line) => {
    const xs = line.points.map((point) => point.x);
    const ys = line.points.map((point) => point.y);
    const x = Math.min(...xs);
    const y = Math.min(...ys);
    return sees(x, y, Math.max(...xs) - x, Math.max(...ys) - y);
  });
  return { open: boxes.filter((box) => box.open), boxes: boxes.filter((box) => !box.open), lines };
}

/** Scroll just so far that a box can be seen. */
function reveal(box: Box, view: View, size: Size, goTo: (view: View) => void): void {
  const x = box.x * view.k + view.x;
  const y = box.y * view.k + view.y;
  const out = x < 10 || y < 10 || x + box.width * view.k > size.width - 10 || y + Math.min(box.height, 60) * view.k > size.height - 10;
  if (out) goTo({ x: size.width / 2 - (box.x + box.width / 2) * view.k, y: size.height / 2 - (box.y + 30) * view.k, k: view.k });
}

/** Where an arrow key leads: along an edge down or up, else to the nearest box on that side. */
function keyTarget(key: string, picture: Picture, current: Box | undefined): Box | undefined {
  const boxes = picture.boxes.filter((box) => !box.open);
  if (!key.startsWith("Arrow") && key !== "Home" && key !== "End") return undefined;
  const inOrder = [...boxes].sort((one, other) => one.y - other.y || one.x - other.x);
  if (key === "Home" || current === undefined) return inOrder[0];
  if (key === "End") return inOrder[inOrder.length - 1];
  if (key === "ArrowDown" || key === "ArrowUp") {
    const ends = picture.lines
      .filter((line) => (key === "ArrowDown" ? line.from : line.to) === current.id)
      .map((line) => picture.byId.get(key === "ArrowDown" ? line.to : line.from))
      .filter((box): box is Box => box !== undefined);
    const near = ends.sort((one, other) => distance(one, current) - distance(other, current))[0];
    if (near !== undefined) return near;
  }
  const side = (box: Box): boolean => {
    const dx = box.x + box.width / 2 - (current.x + current.width / 2);
    const dy = box.y + box.height / 2 - (current.y + current.height / 2);
    if (key === "ArrowRight") return dx > 4 && Math.abs(dy) < Math.abs(dx) * 2;
    if (key === "ArrowLeft") return dx < -4 && Math.abs(dy) < Math.abs(dx) * 2;
    return key === "ArrowDown" ? dy > 4 : dy < -4;
  };
  return boxes.filter((box) => box !== current && side(box)).sort((one, other) => distance(one, current) - distance(other, current))[0];
}

function distance(one: Box, other: Box): number {
  return Math.hypot(one.x + one.width / 2 - other.x - other.width / 2, one.y + one.height / 2 - other.y - other.height / 2);
}

/** Points of cividis, which reads the same to people who do not tell red from green. */
const HEAT = ["#fdea45", "#e1cc55", "#b9ac70", "#948e77", "#737172", "#52576d", "#2f3f6b", "#00224e"];

/** The color of a share from 0 to 1. */
export function heatColor(share: number): string {
  return HEAT[Math.min(HEAT.length - 1, Math.floor(Math.max(0, share) * HEAT.length))]!;
}
