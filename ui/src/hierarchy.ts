/** The modules of the source as a tree over a program's nodes, with nothing wider than a screen. */

import type { Rec } from "./data";
import type { State } from "./program";

export interface Group {
  id: string;
  label: string;
  parent: Group | null;
  members: Member[];
  /** How many nodes stand below. */
  size: number;
}

export type Member = Group | Rec;

/** A group with more members than this is cut into parts. */
const WIDEST = 40;
const LARGEST_PART = 30;
const SMALLEST_PART = 8;

export function isGroup(member: Member): member is Group {
  return "members" in member;
}

export interface Hierarchy {
  root: Group;
  groups: Map<string, Group>;
  /** The innermost group of each node. */
  home: Map<number, Group>;
}

/**
 * The tree of a program; without modules if `flat`. Values that are only another name of others are left out.
 * Cost: linear.
 */
export function hierarchyOf(state: State, flat = false): Hierarchy {
  const root: Group = { id: "", label: "", parent: null, members: [], size: 0 };
  const made = new Map<string, Group>([["", root]]);
  for (const record of state.values()) {
    if (record.alias >= 0) continue;
    let group = root;
    let id = "";
    for (const segment of flat ? [] : record.path) {
      id = `${id}/${segment}`;
      let next = made.get(id);
      if (next === undefined) {
        next = { id, label: segment, parent: group, members: [], size: 0 };
        made.set(id, next);
        group.members.push(next);
      }
      group = next;
    }
    group.members.push(record);
  }
  if (!flat) simplify(root);
  const hierarchy: Hierarchy = { root, groups: new Map(), home: new Map() };
  settle(root, hierarchy);
  return hierarchy;
}

/** Without groups of one member, and with wide groups cut into parts. */
function simplify(group: Group): void {
  group.members = group.members.map((member) => {
    if (!isGroup(member)) return member;
    simplify(member);
    const only = member.members[0];
    if (member.members.length !== 1 || only === undefined) return member;
    if (!isGroup(only)) return only;
    only.label = `${member.label} / ${only.label}`;
    return only;
  });
  // Operators beside many modules are gathered first, so that the modules stay in sight.
  const loose = group.members.filter((member) => !isGroup(member));
  if (group.members.length > WIDEST && loose.length > SMALLEST_PART && loose.length < group.members.length) {
    const parts = cut(group, loose);
    const seen = new Set<Member>();
    const partOf = new Map(parts.flatMap((part) => part.members.map((member): [Member, Group] => [member, part])));
    group.members = group.members
      .map((member): Member => partOf.get(member) ?? member)
      .filter((member) => !seen.has(member) && seen.add(member));
  }
  while (group.members.length > WIDEST) group.members = cut(group, group.members);
}

/** Members in parts of a size that gives few parts of few members. */
function cut(group: Group, members: Member[]): Group[] {
  const size = Math.min(LARGEST_PART, Math.max(SMALLEST_PART, Math.ceil(Math.sqrt(members.length))));
  const count = Math.ceil(members.length / size);
  return Array.from({ length: count }, (_, index) => {
    const part = members.slice(index * size, (index + 1) * size);
    const id = `${group.id}/\u0000${part.length}:${idOf(part[0]!)}`;
    return { id, label: `part ${index + 1} of ${count}`, parent: group, members: part, size: 0 };
  });
}

export function idOf(member: Member): string {
  return isGroup(member) ? `g${member.id}` : `n${member.node}`;
}

function settle(group: Group, hierarchy: Hierarchy): void {
  hierarchy.groups.set(group.id, group);
  group.size = 0;
  for (const member of group.members) {
    if (isGroup(member)) {
      member.parent = group;
      settle(member, hierarchy);
      group.size += member.size;
    } else {
      hierarchy.home.set(member.node, group);
      group.size += 1;
    }
  }
}

/** The groups to open at first: the outermost, as long as the picture stays small. */
export function firstOpen(hierarchy: Hierarchy, most = 14): Set<string> {
  const open = new Set<string>();
  let shown = hierarchy.root.members.length;
  let level = hierarchy.root.members.filter(isGroup);
  while (level.length > 0) {
    const next: Group[] = [];
    for (const group of [...level].sort((one, other) => one.members.length - other.members.length)) {
      // A program inside a single module is opened however wide that is.
      if (shown + group.members.length > most && shown > 6) continue;
      open.add(group.id);
      shown += group.members.length - 1;
      next.push(...group.members.filter(isGroup));
    }
    level = next;
  }
  return open;
}

/** The groups around a node, innermost first, without the root. */
export function groupsAround(hierarchy: Hierarchy, node: number): Group[] {
  const found: Group[] = [];
  for (let group = hierarchy.home.get(node); group?.parent; group = group.parent) found.push(group);
  return found;
}

/** All nodes below a group. */
export function nodesBelow(group: Group): Rec[] {
  const found: Rec[] = [];
  const pending: Group[] = [group];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    for (const member of next.members) {
      if (isGroup(member)) pending.push(member);
      else found.push(member);
    }
  }
  return found;
}
