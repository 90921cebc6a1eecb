/** Numbers as people read them. */

export function count(value: number): string {
  return value.toLocaleString("en");
}

function scaled(value: number, units: readonly string[], space: string): string {
  let index = 0;
  while (value >= 1000 && index < units.length - 1) {
    value /= 1000;
    index += 1;
  }
  const digits = value >= 100 || index === 0 ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)}${space}${units[index]}`.trim();
}

export function amount(value: number): string {
  return scaled(value, ["", "k", "M", "G", "T", "P"], " ");
}

export function bytes(value: number): string {
  return scaled(value, ["B", "kB", "MB", "GB", "TB"], " ");
}

export function seconds(value: number): string {
  if (value < 1e-3) return `${(value * 1e6).toFixed(value < 1e-5 ? 1 : 0)} µs`;
  return value < 1 ? `${(value * 1e3).toFixed(value < 0.1 ? 2 : 0)} ms` : `${value.toFixed(2)} s`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
