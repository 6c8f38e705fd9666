import { RocmForgeError } from '../../shared/errors.js';

/** Limits of one principal. An absent one does not apply. */
export interface PrincipalLimits {
  /** Calls, whatever they ask: a call with several prompts, inputs or instances is one. */
  readonly requests_per_minute?: number;
  /** Tokens of prompts and generated ones. */
  readonly tokens_per_minute?: number;
  /** Prompts under way, of one request or of several; completions of one prompt are one. */
  readonly streams?: number;
  /** The part of the queue that it may hold, above 0 and at most 1. */
  readonly queue_share?: number;
}

export type LimitName = keyof PrincipalLimits;

/** Limits of principals: their own, or those of everybody else. */
export interface Limits {
  of(principal: string): PrincipalLimits;
  /** Principals with limits of their own. */
  readonly principals: readonly string[];
}

const NAMES: readonly LimitName[] = ['requests_per_minute', 'tokens_per_minute', 'streams', 'queue_share'];
const MOST = 1e12;

const UNLIMITED: PrincipalLimits = {};

/** Nobody is limited. */
export const NO_LIMITS: Limits = { of: () => UNLIMITED, principals: [] };

/**
 * Reads a file of limits: `{"default": LIMITS, "principals": {"token:NAME": LIMITS, …}}`. Who is named has the limits that
 * are given there and none of the default's.
 *
 * A file and no flags: limits are of principals, which come and go with their tokens while the gateway runs.
 *
 * @throws RocmForgeError `INVALID_OPTION`, naming what is not understood
 */
export function readLimits(path: string, text: string): Limits {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new RocmForgeError('INVALID_OPTION', `${path} is not JSON: ${(error as Error).message}`);
  }
  const file = objectAt(path, 'the file', parsed);
  refuseOthers(path, 'the file', file, ['default', 'principals']);
  const common = limitsAt(path, 'default', file.default ?? {});
  const named = new Map<string, PrincipalLimits>();
  for (const [principal, limits] of Object.entries(objectAt(path, 'principals', file.principals ?? {}))) {
    if (!/^(token|jwt|cert):./.test(principal)) {
      throw wrong(path, `"${principal}" is not a principal; use token:NAME, jwt:SUBJECT or cert:NAME`);
    }
    named.set(principal, limitsAt(path, principal, limits));
  }
  return { of: (principal) => named.get(principal) ?? common, principals: [...named.keys()] };
}

function limitsAt(path: string, place: string, value: unknown): PrincipalLimits {
  const limits = objectAt(path, place, value);
  refuseOthers(path, place, limits, NAMES);
  for (const [name, limit] of Object.entries(limits)) {
    const isShare = name === 'queue_share';
    const isTaken = isShare
      ? typeof limit === 'number' && limit > 0 && limit <= 1
      : Number.isInteger(limit) && Number(limit) >= 1 && Number(limit) <= MOST;
    if (isTaken) continue;
    const wanted = isShare ? 'a number above 0 and at most 1' : `a whole number from 1 to ${MOST}`;
    throw wrong(path, `${name} of ${place} is ${JSON.stringify(limit)}; it must be ${wanted}`);
  }
  return limits;
}

function objectAt(path: string, place: string, value: unknown): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw wrong(path, `${place} is ${JSON.stringify(value)} and no object`);
}

function refuseOthers(path: string, place: string, object: object, known: readonly string[]): void {
  const unknown = Object.keys(object).find((key) => !known.includes(key));
  if (unknown !== undefined)
    throw wrong(path, `${place} has the unknown key "${unknown}"; allowed: ${known.join(', ')}`);
}

const wrong = (path: string, why: string) => new RocmForgeError('INVALID_OPTION', `in ${path}, ${why}`);
