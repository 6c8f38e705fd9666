import { expect } from 'vitest';

/**
 * Typed arrays of one kind with the same bytes are equal at once; all others are left to vitest, which looks at every element
 * as at any object's key: of the millions that kernels write that took a third of their tests' time.
 */
expect.addEqualityTesters([
  (a: unknown, b: unknown): boolean | undefined => {
    if (!ArrayBuffer.isView(a) || !ArrayBuffer.isView(b) || a.constructor !== b.constructor) return undefined;
    if (a.byteLength !== b.byteLength) return undefined;
    return bytes(a).equals(bytes(b)) || undefined;
  },
]);

const bytes = (view: ArrayBufferView): Buffer => Buffer.from(view.buffer, view.byteOffset, view.byteLength);
