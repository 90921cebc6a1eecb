/**
 * The data of a page: what `regraft.view` writes, and how it is read.
 *
 * Strings stand in one table and are named by their place in it. A *node* is one variable of the model through all
 * of its versions; a *record* is one state of a node. A version of the program is a list of records in their order.
 */

/** One state of a node: see `RecordRow` for the order in which the fields are written. */
export interface Rec {
  node: number;
  name: string;
  op: string;
  kind: Kind;
  family: string;
  type: string;
  text: string;
  /** Where the node stands among the modules of the source, outermost first. */
  path: string[];
  origins: string[];
  operands: number[];
  weights: string[];
  operations: number | null;
  bytes: number | null;
  /** The node that this one is only another name of, -1 if it is a value of its own. */
  alias: number;
}

export type Kind = "call" | "input" | "output" | "tuple" | "item" | "cast" | "branch" | "value";

type RecordRow = [
  number, number, number, Kind, number, number, number, number, number[], number[], number[], number | null,
  number | null, number,
];

export interface Version {
  label: string;
  /** Records in the order of the program; null where they are those of the earlier version `same`. */
  records: number[] | null;
  /** The first version with these records. */
  same: number;
}

export interface PassDone {
  name: string;
  seconds: number;
  rewrites: number;
  /** The number of rewrites by rule, most first. */
  rules: [string, number][];
  /** The number of this pass's rewrites that the page holds; the others are left out for size. */
  kept: number;
  /** The versions that it began with and that it made. */
  version: number;
  end: number;
  declined: { rule: string; binding: string; reason: string }[];
  declinedCount: number;
  ops: [string, number, number][];
}

export interface Step {
  pass: number;
  /** Empty where values went that nothing used any more. */
  rule: string;
  at: number;
  matched: number[];
  /** Records that became true; a node that went is written as -1 - node. */
  edit: number[];
}

export interface PatternNode {
  id: number;
  text: string;
  role: string;
  children: PatternNode[];
}

export interface Finding {
  title: string;
  pass: string;
  version: number;
  roots: PatternNode[];
  links: string[];
  matchCount: number;
  refusedCount: number;
  missCount: number;
  absent: string[];
  near: string[];
  matches: { node: number; binding: string; origins: string[]; matched: number[]; kind: string | null; reason: string | null }[];
  misses: {
    node: number;
    binding: string;
    origins: string[];
    tried: number;
    kind: string;
    reason: string;
    place: string;
    matched: number;
    parts: number;
    failing: number;
  }[];
}

export interface Profile {
  label: string;
  engine: string;
  runs: number;
  version: number;
  rows: { node: number; name: string; op: string; seconds: number }[];
}

export interface Sharding {
  devices: string;
  count: number;
  /** Bytes: of the weights in all, and of weights and temporaries on each device. */
  memory: { whole: number; weights: number; temporaries: number };
  arguments: { name: string; type: string; placed: string; node: number }[];
  weights: { name: string; type: string; placed: string; node: number }[];
  collectives: { kind: string; where: string; bytes: number; count: number; node: number }[];
}

export interface Port {
  name: string;
  type: string;
}

export interface Summary {
  inputs: Port[];
  outputs: Port[];
  weights: { count: number; elements: number; bytes: number };
  weightsAfter: { count: number; elements: number; bytes: number } | null;
  verification: {
    against: string;
    outputs: { name: string; dtype: string; shape: string; absolute: number | null; relative: number | null; tolerance: number; problem: string | null }[];
  } | null;
  precision: Precision | null;
  stages: [string, number][];
}

/** The attempts at lower precisions within an error, and the layers of the one that was kept, or of the nearest miss. */
export interface Precision {
  maxError: number;
  errorMeasure: string | null;
  measuredOn: string | null;
  notes: string[];
  originalKept: boolean;
  attempts: {
    name: string; engine: string; few: number; layers: number; error: number | null; agreement: number | null;
    seconds: number | null; timesAsFast: number | null; noise: number | null; says: string;
  }[];
  layers: { name: string; precision: string; error: number | null; seconds: number | null }[];
  layersOf: string;
}

interface Written {
  title: string;
  subtitle: string;
  generator: string;
  strings: string[];
  nodes: number;
  records: RecordRow[];
  versions: Version[];
  passes: PassDone[];
  steps: Step[];
  texts: { version: number; text: string; lines: [number, number][] }[];
  findings: Finding[];
  profiles: Profile[];
  sharding: Sharding | null;
  summary: Summary;
  start?: string;
  reload: string | null;
}

export interface Text {
  lines: string[];
  lineOf: Map<number, number>;
}

/** All that a page knows. */
export interface Data {
  title: string;
  subtitle: string;
  generator: string;
  nodes: number;
  records: Rec[];
  versions: Version[];
  passes: PassDone[];
  steps: Step[];
  texts: Map<number, Text>;
  findings: Finding[];
  profiles: Profile[];
  sharding: Sharding | null;
  summary: Summary;
  /** The view to begin with, where it is not the first. */
  start?: string;
  /** Where a served page asks whether its files have changed; null for a page in a file. */
  reload: string | null;
}

const SEPARATOR = "\u001f";

/** The text of an element that holds gzip-compressed text as base64. */
export async function unpack(id: string): Promise<string> {
  const packed = document.getElementById(id)?.textContent ?? "";
  const bytes = Uint8Array.from(atob(packed.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** The data of the page, from the JSON that it holds. */
export function readData(json: string): Data {
  const written = JSON.parse(json) as Written;
  const strings = written.strings;
  const at = (index: number): string => strings[index] ?? "";
  const paths = new Map<number, string[]>();
  const pathAt = (index: number): string[] => {
    let path = paths.get(index);
    if (path === undefined) {
      const text = at(index);
      path = text === "" ? [] : text.split(SEPARATOR);
      paths.set(index, path);
    }
    return path;
  };
  const records = written.records.map((row): Rec => ({
    node: row[0],
    name: at(row[1]),
    op: at(row[2]),
    kind: row[3],
    family: at(row[4]),
    type: at(row[5]),
    text: at(row[6]),
    path: pathAt(row[7]),
    origins: row[8].map(at),
    operands: row[9],
    weights: row[10].map(at),
    operations: row[11],
    bytes: row[12],
    alias: row[13],
  }));
  const texts = new Map(
    written.texts.map((text) => [text.version, { lines: text.text.split("\n"), lineOf: new Map(text.lines) }]),
  );
  return { ...written, records, texts };
}
