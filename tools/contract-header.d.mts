import type * as kernels from '../src/executor/kernels/index.js';
export function contractHeader(contracts: typeof kernels, slotWords: Readonly<Record<string, number>>): string;
