import type { Manifest } from './kernel-limits.mjs';

export interface InstructionCounts {
  readonly all: Readonly<Record<string, number>>;
  readonly loops: Readonly<Record<string, number>>;
}
export interface CountsTable {
  readonly compiler: string;
  readonly kernels: ReadonlyMap<string, Readonly<Record<string, number>>>;
}
export const CLASS_NAMES: readonly string[];
export function countInstructions(disassembly: string, names: readonly string[]): Map<string, InstructionCounts>;
export function countsTable(manifest: Manifest, counted: ReadonlyMap<string, InstructionCounts>): string;
export function readCounts(text: string): CountsTable;
export function worsened(before: CountsTable, after: CountsTable): string[];
