import { printable, printableJson } from '../../shared/printable.js';

/** Writes text to stdout; see {@link printable}. */
export function writeText(text: string): void {
  process.stdout.write(printable(text));
}

/** Writes a value to stdout as JSON and a line end; see {@link printableJson}. @param indent spaces a level; default: one line */
export function writeJson(value: unknown, indent?: number): void {
  process.stdout.write(`${printableJson(value, indent)}\n`);
}

/** Writes text to stderr; see {@link printable}. */
export function writeNotice(text: string): void {
  process.stderr.write(printable(text));
}

/** A model's text: unchanged for a program that reads stdout, and {@link printable} for a terminal. */
export function writeModelText(text: string): void {
  process.stdout.write(process.stdout.isTTY ? printable(text) : text);
}
