import type { Card } from './cards.js';
import type { Finding } from './finding.js';
import type { Machine } from './machine.js';

/**
 * The variables by which AMD's runtime shows cards as others, or not at all.
 *
 * @param hasCodeObjects whether there are any for a target
 */
export function environmentFindings(
  { env }: Machine,
  cards: readonly Card[],
  hasCodeObjects: (target: string) => boolean,
): Finding[] {
  const override = env.HSA_OVERRIDE_GFX_VERSION;
  return [
    ...(override === undefined ? [] : [overridden(override, cards, hasCodeObjects)]),
    ...['ROCR_VISIBLE_DEVICES', 'HIP_VISIBLE_DEVICES'].flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [visible(name, value, cards.length)];
    }),
  ];
}

/** The runtime then tells every card as of that target, and takes that target's code objects. */
function overridden(value: string, cards: readonly Card[], hasCodeObjects: (target: string) => boolean): Finding {
  const check = 'HSA_OVERRIDE_GFX_VERSION';
  const fix = `unset ${check}`;
  const version = /^(\d+)\.(\d+)\.(\d+)$/.exec(value);
  if (version === null) return { check, state: 'failed', detail: `${value} is not a version such as 11.0.0`, fix };
  const [major, minor, step] = version.slice(1).map(Number) as [number, number, number];
  const target = `gfx${major}${minor.toString(16)}${step.toString(16)}`;
  const own = [...new Set(cards.map((card) => card.target))];
  const shown = `shows ${own.join(', ') || 'every card'} as ${target}`;
  if (!hasCodeObjects(target))
    return { check, state: 'failed', detail: `${shown}, for which there are no code objects`, fix };
  if (own.length > 0 && own.every(hasCodeObjects)) {
    const needless = own.every((one) => one === target);
    return {
      check,
      state: 'info',
      detail: needless
        ? `${shown}, which it is`
        : `${shown}; there are code objects of its own, which need no override`,
      fix,
    };
  }
  return { check, state: 'info', detail: `${shown}: right only where both have the same instructions`, fix };
}

/** Which cards are left: the runtimes read a list up to the first entry that names none. */
function visible(name: string, value: string, cards: number): Finding {
  const fix = `unset ${name}`;
  if (value.trim() === '')
    return { check: name, state: 'info', detail: 'set and empty, which hides all cards or none', fix };
  const entries = value.split(',').map((entry) => entry.trim());
  const named = entries.findIndex((entry) => !(/^\d+$/.test(entry) ? Number(entry) < cards : /^GPU-/.test(entry)));
  const count = named === -1 ? entries.length : named;
  const detail = `${value}: ${count} of ${cards} cards to be seen`;
  if (count === 0) return { check: name, state: 'failed', detail, fix };
  return {
    check: name,
    state: 'info',
    detail: `${detail}, renumbered from 0 (--gpu)`,
    ...(named !== -1 && { fix }),
  };
}
