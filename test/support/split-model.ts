import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { GgufBuilder } from './gguf-builder.js';

/** Writes the parts of a model beside each other in a new folder. @returns their paths, under llama-gguf-split's names */
export function writeParts(parts: readonly GgufBuilder[]): string[] {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  return parts.map((part, i) => {
    const file = path.join(folder, partName(i + 1, parts.length));
    writeFileSync(file, part.build());
    return file;
  });
}

/** @param number from 1 */
export function partName(number: number, count: number, base = 'random'): string {
  const digits = (value: number) => String(value).padStart(5, '0');
  return `${base}-${digits(number)}-of-${digits(count)}.gguf`;
}
