import { readFileSync } from 'node:fs';
import { RocmForgeError } from '../../shared/errors.js';
import { LOAD_RUN_FORMAT, type LoadRun } from './load-plot.js';
import { type LoadReport, loadReport } from './load-report.js';

/**
 * A run that `bench serve --save` wrote.
 *
 * @throws RocmForgeError `INVALID_OPTION` for a file that is none
 */
export function readLoadRun(file: string): LoadRun {
  let run: unknown;
  try {
    run = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new RocmForgeError('INVALID_OPTION', `${file} cannot be compared with: ${(error as Error).message}`);
  }
  const { format, records, title, parameters } = (run ?? {}) as Partial<LoadRun>;
  const isRun =
    format === LOAD_RUN_FORMAT &&
    [title, parameters].every((text) => typeof text === 'string') &&
    Array.isArray(records) &&
    records.every((record) => Array.isArray(record?.gapsMs) && typeof record.error === 'string');
  if (isRun) return run as LoadRun;
  throw new RocmForgeError('INVALID_OPTION', `${file} is not a run of this release; write one with --save`);
}

/** Two runs beside each other, and how many times as much the newer has. */
export function formatComparison(report: LoadReport, before: LoadRun): string {
  const other = loadReport(before.records);
  const row = (name: string, of: (one: LoadReport) => number): string[] => {
    const [now, then] = [of(report), of(other)];
    const number = (value: number) => value.toPrecision(value >= 1000 ? 4 : 3);
    return [name, number(now), number(then), (now / then).toFixed(2)];
  };
  const table = [
    ['compared', 'this run', 'before', 'times'],
    row('tokens/s', ({ tokensPerSecond }) => tokensPerSecond),
    row('requests/s', ({ requestsPerSecond }) => requestsPerSecond),
    row('first token p50, ms', ({ timeToFirstTokenMs }) => timeToFirstTokenMs.p50),
    row('first token p99, ms', ({ timeToFirstTokenMs }) => timeToFirstTokenMs.p99),
    row('between chunks p50, ms', ({ interTokenMs }) => interTokenMs.p50),
    row('between chunks p99, ms', ({ interTokenMs }) => interTokenMs.p99),
  ];
  const lines = table.map((cells) => cells.map((cell, i) => (i === 0 ? cell.padEnd(24) : cell.padStart(10))).join(''));
  return `\n${lines.join('\n')}\nbefore: ${before.title}, ${before.parameters}\n`;
}
