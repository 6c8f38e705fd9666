import path from 'node:path';
import type { OptionRows } from '../shared/option-table.js';
import { GATEWAY_OPTIONS, type GatewayOptions } from './options.js';

/**
 * The options of a gateway as they are told to who looks for what is wrong: files by their names alone, since folders tell whose
 * machine it is; of the model's path and of secrets' files nothing is read. Values that are texts of their own, such as variables for
 * a template, are told by their length.
 */
export function redactedOptions(options: GatewayOptions): Record<string, unknown> {
  return Object.fromEntries(Object.entries(options).flatMap(([name, value]) => told(name, value)));
}

const ROWS: OptionRows = GATEWAY_OPTIONS;

function told(name: string, value: unknown): [string, unknown][] {
  if (value === undefined || typeof value === 'function') return [];
  if (typeof value === 'bigint') return [[name, String(value)]];
  const reported = ROWS[name]?.reported;
  if (reported === 'length') return [[name, `${String(value).length} characters`]];
  if (reported === 'host') return [[name, hostOf(String(value))]];
  if (typeof value === 'string') return [[name, withoutFolders(value)]];
  // Entries of a list are reported as if each stood alone.
  if (Array.isArray(value)) return [[name, value.flatMap((one) => told(name, one).map(([, it]) => it))]];
  if (typeof value === 'object' && value !== null) {
    return [[name, Object.fromEntries(Object.entries(value).flatMap(([inner, one]) => told(inner, one)))]];
  }
  return [[name, value]];
}

function withoutFolders(text: string): string {
  if (!text.includes('/')) return text;
  const [, prefix = '', rest = text] = /^(unix:)?(.*)$/s.exec(text) ?? [];
  return `${prefix}${path.basename(rest)}`;
}

function hostOf(text: string): string {
  try {
    return new URL(text).host;
  } catch {
    return `${text.length} characters`;
  }
}
