/** The modules as a list to walk through, and the search: the same graph for keyboards and screen readers. */

import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Rec } from "./data";
import { plural } from "./format";
import { hierarchyOf, idOf, isGroup, type Group, type Member } from "./hierarchy";
import type { State } from "./program";

interface Props {
  state: State;
  selected: ReadonlySet<number>;
  selectedGroup: string | null;
  onSelect: (node: number | null, group: string | null) => void;
  search: { readonly current: HTMLInputElement | null } & { current: HTMLInputElement | null };
}

const MOST_FOUND = 200;

export function Outline(props: Props): VNode {
  const { state, onSelect } = props;
  const [query, setQuery] = useState("");
  const hierarchy = useMemo(() => hierarchyOf(state), [state]);
  const found = useMemo(() => search(state, query), [state, query]);
  return (
    <div class="outline">
      <label class="search">
        <span class="visually-hidden">Search operators, names, types, modules and origins</span>
        <input ref={props.search} type="search" placeholder="Search ( / )" value={query} spellcheck={false}
          onInput={(event) => setQuery(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && found[0]) onSelect(found[0].node, null);
            if (event.key === "Escape") setQuery("");
          }} />
      </label>
      {query.trim() === "" ? <Tree {...props} root={hierarchy.root} /> : (
        <div class="found" role="region" aria-label="Search results">
          <p class="quiet" role="status">{found.length > MOST_FOUND ? `more than ${MOST_FOUND} results` : plural(found.length, "result")}</p>
          <ul>
            {found.slice(0, MOST_FOUND).map((record) => (
              <li key={record.node}>
                <button type="button" class={`row ${props.selected.has(record.node) ? "chosen" : ""}`} onClick={() => onSelect(record.node, null)}>
                  <span class={`swatch family-${record.family}`} />{record.op} <span class="quiet">{record.name}</span>
                  <span class="where">{record.path.join(" › ")}</span>
                </button>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}

/** The records in which all words of the query occur. Cost: linear. */
function search(state: State, query: string): Rec[] {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const found: Rec[] = [];
  if (words.length === 0) return found;
  for (const record of state.values()) {
    if (record.alias >= 0) continue;
    const text = `${record.op} ${record.name} ${record.type} ${record.path.join(".")} ${record.origins.join(" ")} ${record.weights.join(" ")}`.toLowerCase();
    if (words.every((word) => text.includes(word))) found.push(record);
    if (found.length > MOST_FOUND) break;
  }
  return found;
}

interface RowOf {
  member: Member;
  depth: number;
  parent: Group;
}

function Tree(props: Props & { root: Group }): VNode {
  const { root, selected, selectedGroup, onSelect } = props;
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const [at, setAt] = useState("");
  const list = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => rowsOf(root, open), [root, open]);
  const [node] = selected;
  const chosen = selectedGroup !== null ? `g${selectedGroup}` : node === undefined ? "" : `n${node}`;

  // What is selected in the graph is shown here, too.
  useEffect(() => {
    if (chosen === "") return;
    setAt(chosen);
    const path = pathTo(root, chosen);
    if (path.some((group) => !open.has(group.id))) setOpen(new Set([...open, ...path.map((group) => group.id)]));
  }, [chosen, root]);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen, rows]);

  const toggle = (group: Group, wanted: boolean): void => {
    const next = new Set(open);
    if (wanted) next.add(group.id);
    else next.delete(group.id);
    setOpen(next);
  };
  const pick = (member: Member): void => {
    setAt(idOf(member));
    onSelect(isGroup(member) ? null : member.node, isGroup(member) ? member.id : null);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const index = Math.max(0, rows.findIndex((row) => idOf(row.member) === at));
    const row = rows[index];
    if (row === undefined) return;
    const move = (to: number): void => {
      const target = rows[Math.min(rows.length - 1, Math.max(0, to))]!;
      setAt(idOf(target.member));
      list.current?.querySelectorAll<HTMLElement>("[role=treeitem]")[rows.indexOf(target)]?.focus();
    };
    if (event.key === "ArrowDown") move(index + 1);
    else if (event.key === "ArrowUp") move(index - 1);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(rows.length - 1);
    else if (event.key === "ArrowRight" && isGroup(row.member)) {
      if (open.has(row.member.id)) move(index + 1);
      else toggle(row.member, true);
    } else if (event.key === "ArrowLeft") {
      if (isGroup(row.member) && open.has(row.member.id)) toggle(row.member, false);
      else move(rows.findIndex((other) => other.member === row.parent));
    } else if (event.key === "Enter" || event.key === " ") pick(row.member);
    else return;
    event.preventDefault();
  };
  const focusable = rows.some((row) => idOf(row.member) === at) ? at : rows[0] ? idOf(rows[0].member) : "";
  return (
    <div class="tree" role="tree" aria-label="Modules" ref={list} onKeyDown={onKeyDown}>
      {rows.map(({ member, depth }) => {
        const id = idOf(member);
        const group = isGroup(member) ? member : null;
        return (
          <div key={id} role="treeitem" aria-level={depth + 1} aria-selected={id === chosen}
            {...(group ? { "aria-expanded": open.has(group.id) } : {})}
            class={`row ${id === chosen ? "chosen" : ""}`} tabIndex={id === focusable ? 0 : -1}
            style={{ paddingLeft: `${depth * 14 + 6}px` }} onClick={() => pick(member)}>
            {group ? (
              <>
                <span class="twist" onClick={(event) => { event.stopPropagation(); toggle(group, !open.has(group.id)); }}>{open.has(group.id) ? "▾" : "▸"}</span>
                <span class="label">{group.label}</span><span class="quiet">{group.size}</span>
              </>
            ) : (
              <><span class={`swatch family-${(member as Rec).family}`} /><span class="label">{(member as Rec).op}</span><span class="quiet">{(member as Rec).name}</span></>
            )}
          </div>
        );
      })}
    </div>
  );
}

function rowsOf(root: Group, open: ReadonlySet<string>): RowOf[] {
  const rows: RowOf[] = [];
  const walk = (group: Group, depth: number): void => {
    for (const member of group.members) {
      rows.push({ member, depth, parent: group });
      if (isGroup(member) && open.has(member.id)) walk(member, depth + 1);
    }
  };
  walk(root, 0);
  return rows;
}

/** The groups around a member, outermost first. */
function pathTo(root: Group, id: string): Group[] {
  const path: Group[] = [];
  const find = (group: Group): boolean => {
    for (const member of group.members) {
      if (idOf(member) === id) return true;
      if (isGroup(member)) {
        path.push(member);
        if (find(member)) return true;
        path.pop();
      }
    }
    return false;
  };
  find(root);
  return path;
}
