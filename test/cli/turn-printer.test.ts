import { describe, expect, it } from 'vitest';
import { TurnPrinter } from '../../src/cli/chat/turn-printer.js';
import { GenerateChunk } from '../../src/shared/generated/rocmforge/v1/inference.js';

const CHUNKS = [
  { reasoning: 'H' },
  { reasoning: 'm.' },
  { text: 'I look' },
  { text: '.', toolCalls: [{ index: 0, id: 'a', name: 'clock', argumentsJson: '' }] },
  { toolCalls: [{ index: 0, argumentsJson: '{}' }] },
  { toolCalls: [{ index: 1, id: 'b', name: 'weather', argumentsJson: '{"a"' }] },
  { toolCalls: [{ index: 1, argumentsJson: ': 1}' }] },
].map((chunk) => GenerateChunk.fromPartial(chunk));

function printed(hasStyles: boolean, chunks: readonly GenerateChunk[]): string {
  const printer = new TurnPrinter(hasStyles);
  return chunks.map((chunk) => printer.chunk(chunk)).join('') + printer.end();
}

describe('a turn in the terminal', () => {
  it('has its reasoning dimmed, and a line for each call', () => {
    expect(printed(true, CHUNKS)).toBe('\x1b[2mHm.\x1b[22m\nI look.\n→ clock({})\n→ weather({"a": 1})');
  });

  it('has no styles where nobody would see them', () => {
    expect(printed(false, CHUNKS)).toBe('Hm.\nI look.\n→ clock({})\n→ weather({"a": 1})');
  });

  it('steers a terminal by nothing that the model wrote, and leaves a program all of it', () => {
    const chunk = GenerateChunk.fromPartial({
      reasoning: '\x1b[2J',
      text: 'a\x9b2J\n\tb',
      toolCalls: [{ index: 0, id: 'a', name: '\x1b]0;t\x07', argumentsJson: '"\u202e"' }],
    });
    expect(printed(true, [chunk])).toBe('\x1b[2m\\x1b[2J\x1b[22m\na\\x9b2J\n\tb\n→ \\x1b]0;t\\x07("\\u202e")');
    expect(printed(false, [chunk])).toBe('\x1b[2J\na\x9b2J\n\tb\n→ \x1b]0;t\x07("\u202e")');
  });

  it('ends its dimming where it ends in reasoning', () => {
    expect(printed(true, CHUNKS.slice(0, 1))).toBe('\x1b[2mH\x1b[22m');
  });

  it('is its text where that is all', () => {
    expect(printed(true, [GenerateChunk.fromPartial({ text: 'Yes.' })])).toBe('Yes.');
  });
});
