import { type CodePointSet, ofRanges } from './code-points.js';

const known = new Map<string, CodePointSet | undefined>();

/**
 * The code points that have a property of ECMAScript's \p{…}, asked of the engine's own tables once a name: there are a few
 * hundred names it knows.
 *
 * @returns undefined where the engine knows no such property
 */
export function unicodeProperty(name: string): CodePointSet | undefined {
  const found = known.get(name);
  if (found !== undefined) return found;
  let pattern: RegExp;
  try {
    pattern = new RegExp(`^\\p{${name}}$`, 'u');
  } catch {
    return undefined;
  }
  const ranges: [number, number][] = [];
  for (let codePoint = 0; codePoint <= 0x10ffff; codePoint++) {
    if (codePoint === 0xd800) codePoint = 0xe000;
    if (!pattern.test(String.fromCodePoint(codePoint))) continue;
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === codePoint - 1) last[1] = codePoint;
    else ranges.push([codePoint, codePoint]);
  }
  const set = ofRanges(ranges);
  known.set(name, set);
  return set;
}
