import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { API_FIELDS } from '../../../support/api-fields.js';
import { CLIENT_BODIES } from '../../../support/client-bodies.js';
import { readBody } from '../../../support/read-body.js';
import { runs, seed } from '../../../support/run-size.js';

type Place = readonly (string | number)[];
type Members = Record<string, unknown>;

const LENIENT = { verbose: false };
const STRICT = { verbose: false, strictFields: true };

/** Members whose content belongs to the client or the model, or that no API here knows: it is not read field by field. */
const FREE = new Set([
  ...['parameters', 'input_schema', 'schema', 'value', 'guided_json', 'arguments', 'metadata', 'client_metadata'],
  ...['logit_bias', 'provider', 'usage', 'reasoning_details', 'provider_specific_fields', 'prediction', 'extra_body'],
  ...['context_management', 'thread', 'cache_control', 'citations', 'caller'],
]);
/** The same, in one API only: a call's arguments, a schema, and objects that its requests do not have. */
const FREE_AT = new Set([
  'messages:input',
  'ollamaChat:format',
  'chat:options',
  'ollamaEmbed:options',
  'ollamaEmbeddings:options',
]);
/** Objects that are reported as a whole, because the server runs no such tool. */
const isServers = ({ type }: Members): boolean => typeof type === 'string' && /^web_search/.test(type);

/** Paths of the objects of a body that its API reads field by field. */
function objectsIn(kind: string, value: unknown, at: Place = []): readonly Place[] {
  if (Array.isArray(value)) return value.flatMap((item, i) => objectsIn(kind, item, [...at, i]));
  if (typeof value !== 'object' || value === null || isServers(value as Members)) return [];
  const members = Object.entries(value).filter(([name]) => !FREE.has(name) && !FREE_AT.has(`${kind}:${name}`));
  return [at, ...members.flatMap(([name, item]) => objectsIn(kind, item, [...at, name]))];
}

const objectAt = (body: unknown, place: Place): Members =>
  place.reduce<unknown>((value, key) => (value as Members)[key], body) as Members;

const places = Object.entries(CLIENT_BODIES).flatMap(([client, [kind, body]]) =>
  objectsIn(kind, body).map((place) => ({ client, kind, body, place })),
);
/** The bodies are drawn first, so that one with many objects is not most of the cases. */
const anyPlace = fc
  .constantFrom(...Object.keys(CLIENT_BODIES))
  .chain((client) => fc.constantFrom(...places.filter((place) => place.client === client)));
const anyName = fc.oneof(
  fc.stringMatching(/^x_[a-z]{1,12}$/),
  fc.constantFrom('x-é', 'x y', 'x,y', 'constructor', 'toString', '__proto__'),
);
const anyValue = fc.oneof(
  fc.constantFrom<unknown>(true, 0, '', 'x', [], {}, 1e308),
  fc.json({ maxDepth: 2 }).map((text) => JSON.parse(text)),
);

/** Adds a member, whatever its name. */
const add = (object: Members, name: string, value: unknown): void => {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
};

/** Fields that were not reported once. */
const EXAMPLES: [(typeof places)[number], string, unknown][] = places
  .filter(({ client, place }) => client === 'histories of others' && place.join('.') === 'messages.2.content.0')
  .map((place) => [place, 'x_lost', {}]);

describe('the body of a client', () => {
  it('with a field added is taken and the field reported; with --strict-fields it is refused by its name', () => {
    let count = 0;
    fc.assert(
      fc.property(anyPlace, anyName, anyValue, ({ kind, body, place }, name, value) => {
        count += 1;
        const changed = structuredClone(body);
        add(objectAt(changed, place), name, value);
        const plain = readBody(kind, body, LENIENT);
        const given = readBody(kind, changed, LENIENT);
        expect(given.field).toBeUndefined();
        expect(given.read === plain.read, 'what runs is the same').toBe(true);
        if (value !== null) expect(given.ignored?.some((path) => path.endsWith(name))).toBe(true);
        expect(readBody(kind, changed, STRICT).field).toBeDefined();
        if (readBody(kind, body, STRICT).field === undefined) {
          expect(readBody(kind, changed, STRICT).field?.endsWith(name)).toBe(true);
        }
      }),
      { numRuns: runs(300, 300), seed: seed(45), examples: EXAMPLES },
    );
    expect(count).toBeGreaterThanOrEqual(300);
  });

  it('with a field that is null is the body without it', () => {
    const members = places.flatMap(({ place, ...rest }) =>
      Object.keys(objectAt(rest.body, place)).map((name) => ({ ...rest, place, name })),
    );
    for (const { kind, body, place, name, client } of members) {
      const [nulled, without] = [structuredClone(body), structuredClone(body)];
      objectAt(nulled, place)[name] = null;
      delete objectAt(without, place)[name];
      const what = `${client}: ${[...place, name].join('.')}`;
      const [one, other] = [nulled, without].map((body) => readBody(kind, body, LENIENT));
      expect({ ...one, read: undefined }, what).toEqual({ ...other, read: undefined });
      expect(one?.read === other?.read, `what runs is the same: ${what}`).toBe(true);
    }
    expect(members.length).toBeGreaterThan(300);
  });

  it('with any value in any place is read, or refused by a field', () => {
    fc.assert(
      fc.property(anyPlace, fc.nat(), anyValue, ({ kind, body, place }, at, value) => {
        const changed = structuredClone(body);
        const names = Object.keys(objectAt(changed, place));
        fc.pre(names.length > 0);
        add(objectAt(changed, place), names[at % names.length] as string, value);
        // Any other error is thrown.
        const { read, field } = readBody(kind, changed, LENIENT);
        expect(read !== undefined || field !== undefined).toBe(true);
      }),
      { numRuns: runs(2000, 300), seed: seed(47) },
    );
  });

  it('with any fields that its API documents, at values that can be honoured, is taken', () => {
    const anyClient = fc.constantFrom(...Object.entries(CLIENT_BODIES).filter(([, [kind]]) => named(kind).length > 0));
    const anyCase = anyClient.chain(([client, [kind, body]]) =>
      fc.record({
        ...{ client: fc.constant(client), kind: fc.constant(kind), body: fc.constant(body) },
        fields: fc.uniqueArray(fc.constantFrom(...named(kind)), {
          ...{ minLength: 1, maxLength: 4, selector: ([name]) => name },
        }),
      }),
    );
    fc.assert(
      fc.property(anyCase, ({ kind, body, fields }) => {
        const all = { ...body, ...Object.fromEntries(fields) };
        // Its own rules: options of a stream need a stream, and so on.
        fc.pre(!breaksRule(all));
        expect(readBody(kind, all, LENIENT).field).toBeUndefined();
      }),
      { numRuns: runs(1000, 300), seed: seed(46) },
    );
  });
});

type Kind = keyof typeof API_FIELDS;

/** Each documented field of an API with each of its values. */
const named = (kind: Kind): readonly (readonly [string, unknown])[] =>
  Object.entries(API_FIELDS[kind]).flatMap(([name, values]) => values.map((value) => [name, value] as const));

/** True if fields contradict each other, which the API's own server refuses, too. */
function breaksRule(body: Members): boolean {
  const { stream, stream_options, max_tokens, max_completion_tokens, prompt } = body;
  const differ =
    max_tokens !== undefined && max_completion_tokens !== undefined && max_tokens !== max_completion_tokens;
  const penalizes = ['repetition_penalty', 'repeat_penalty', 'frequency_penalty', 'presence_penalty'].some(
    (name) => body[name] !== undefined && body[name] !== (name.startsWith('repe') ? 1 : 0),
  );
  return (
    (stream_options !== undefined && stream !== true && !('input' in body)) ||
    differ ||
    // The window of penalties is the whole context here.
    (penalizes && body.repeat_last_n !== undefined && body.repeat_last_n !== -1) ||
    (Array.isArray(prompt) && prompt.length > 1 && stream === true && 'n_predict' in body) ||
    // More log probabilities than one answer has.
    (Array.isArray(prompt) &&
      prompt.length > 1 &&
      body.logprobs !== undefined &&
      [max_tokens, body.n_predict].includes(-1))
  );
}
