import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StopMatcher, StopStrings } from '../../../src/lib/tokenizer/stop-matcher.js';
import { runs } from '../../support/run-size.js';

/** The slow, plain twin: the earliest end of a match in the whole text, the longest stop of those that end there. */
function matchAtOnce(text: string, stops: readonly string[], include: boolean): { text: string; stop?: string } {
  for (let end = 1; end <= text.length; end++) {
    const ending = stops.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length);
    const stop = ending[0];
    if (stop !== undefined) return { text: text.slice(0, include ? end : end - stop.length), stop };
  }
  return { text };
}

/** The fewest units that must be held back: the longest end of the text that begins a stop. */
function unitsToHold(text: string, stops: readonly string[]): number {
  for (let units = text.length; units > 0; units--) {
    if (stops.some((stop) => stop.startsWith(text.slice(text.length - units)))) return units;
  }
  return 0;
}

const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '😀', '😁'), minLength: 1, maxLength: 5 });
const stops = fc.array(word, { maxLength: 4 });
const chunks = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c', '😀', '😁'), maxLength: 6 }), {
  maxLength: 12,
});

describe('stop strings', () => {
  it('end the text at the same place however it is cut into chunks', () => {
    fc.assert(
      fc.property(stops, chunks, fc.boolean(), (strings, parts, include) => {
        const matcher = new StopMatcher(new StopStrings(strings), { include });
        let sent = '';
        let stop: string | undefined;
        for (const part of parts) {
          const result = matcher.push(part);
          expect(stop === undefined || result.text === '').toBe(true);
          sent += result.text;
          stop = result.stop;
        }
        sent += matcher.finish();
        expect({ text: sent, ...(stop === undefined ? {} : { stop }) }).toEqual(
          matchAtOnce(parts.join(''), strings, include),
        );
      }),
      { numRuns: runs(2000) },
    );
  });

  it('hold text back only while it may become a stop string', () => {
    fc.assert(
      fc.property(stops, chunks, (strings, parts) => {
        const matcher = new StopMatcher(new StopStrings(strings), { include: false });
        let seen = '';
        let sent = '';
        for (const part of parts) {
          const result = matcher.push(part);
          seen += part;
          sent += result.text;
          if (result.stop !== undefined) return;
          expect(sent.length).toBe(seen.length - unitsToHold(seen, strings));
          expect(sent).not.toMatch(/\p{Surrogate}/u);
        }
      }),
      { numRuns: runs(1000) },
    );
  });

  it('hold nothing back when they are part of the text', () => {
    const matcher = new StopMatcher(new StopStrings(['END']), { include: true });
    expect(matcher.push('the EN')).toEqual({ text: 'the EN', stop: undefined });
    expect(matcher.push('D and more')).toEqual({ text: 'D', stop: 'END' });
    expect(matcher.push('more')).toEqual({ text: '', stop: 'END' });
    expect(matcher.finish()).toBe('');
  });

  it('win by being complete first, then by length', () => {
    expect(new StopMatcher(new StopStrings(['abcd', 'bc']), { include: false }).push('abcd')).toEqual({
      text: 'a',
      stop: 'bc',
    });
    expect(new StopMatcher(new StopStrings(['c', 'bc', 'abc']), { include: false }).push('xabc')).toEqual({
      text: 'x',
      stop: 'abc',
    });
  });

  it('release what they held back when no more comes', () => {
    const matcher = new StopMatcher(new StopStrings(['\n\nUser:']), { include: false });
    expect(matcher.push('Hi.\n\nUs')).toEqual({ text: 'Hi.', stop: undefined });
    expect(matcher.finish()).toBe('\n\nUs');
  });

  it('are not empty and are well-formed', () => {
    for (const stop of ['', '\ud83d']) {
      expect(() => new StopStrings(['ok', stop])).toThrow(
        expect.objectContaining({ reason: 'INVALID_FIELD', metadata: { field: 'stop.strings' } }),
      );
    }
  });
});
