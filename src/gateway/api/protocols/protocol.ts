import { RocmForgeError } from '../../../shared/errors.js';
import type { Constraint, GenerateStreamRequest } from '../../../shared/generated/rocmforge/v1/inference.js';

type PromptInput = NonNullable<GenerateStreamRequest['input']>;

/** A field of another protocol's request, as its proto names it, from the request on. */
export interface ProtocolField<Request> {
  readonly field: string;
  /** The field of GenerateStreamRequest that it becomes. */
  readonly ours?: string;
  /** Details of that. */
  readonly note?: string;
  /** When it asks for what is not built. */
  readonly refusedIf?: (request: Request) => boolean;
}

/** A request in our messages. */
export interface Translation<Options> {
  readonly request: GenerateStreamRequest;
  /** Further data that its response depends on; plain data, which goes from thread to thread. */
  readonly options: Options;
}

/** Another protocol's generations, as ours under other names. */
export interface Protocol<Request extends object, Options> {
  /** The full name of its service. */
  readonly service: string;
  /** Every field of a request. `docs/protocols.md` prints them. */
  readonly fields: readonly ProtocolField<Request>[];
  /** @throws what is no message */
  decode(bytes: Uint8Array): Request;
  /** @throws RocmForgeError `INVALID_FIELD` of what ours could not say */
  translate(request: Request): Translation<Options>;
}

/**
 * Another protocol's request in our messages. All of it is understood, or it is refused.
 *
 * @throws RocmForgeError `NOT_IMPLEMENTED` of a field that is not built, or not known; `INVALID_FIELD`
 */
export function translate<Request extends object, Options>(
  protocol: Protocol<Request, Options>,
  request: Request,
): Translation<Options> {
  refuseUnknown(request);
  for (const { field, refusedIf } of protocol.fields) {
    if (refusedIf?.(request)) throw notImplemented(field, 'requests what is not supported; leave it out');
  }
  return protocol.translate(request);
}

/** @throws RocmForgeError `NOT_IMPLEMENTED` of a field, by its path and number, that the proto does not have */
export function refuseUnknown(message: object): void {
  const unknown = unknownField(message);
  if (unknown !== undefined)
    throw notImplemented(unknown, 'is a field number that this server does not know; remove it');
}

/** A constraint to one of several texts. */
export const choiceConstraint = (options: readonly string[]): Constraint => ({
  kind: { $case: 'choice', value: { options: [...options] } },
});

/** A constraint to any JSON object. */
export const anyObject = (): Constraint => ({ kind: { $case: 'jsonSchema', value: '{"type":"object"}' } });

/** The error that one of our fields is told of, in the words of another protocol's. */
export function inTermsOf(
  { fields }: { readonly fields: readonly Pick<ProtocolField<never>, 'field' | 'ours'>[] },
  error: RocmForgeError,
): RocmForgeError {
  const { field: named } = error.metadata;
  if (named === undefined) return error;
  const found =
    fields.find(({ ours }) => ours === named) ??
    fields.find(({ ours }) => ours !== undefined && (named.startsWith(`${ours}.`) || ours.startsWith(`${named}.`)));
  if (found === undefined) return error;
  const { field } = found;
  const message = error.message.startsWith(`${named} `) ? field + error.message.slice(named.length) : error.message;
  return new RocmForgeError(error.reason, message, { ...error.metadata, field }, { cause: error });
}

/** @throws RocmForgeError `INVALID_FIELD` unless it holds */
export function check(holds: boolean, field: string, what: string): void {
  if (!holds) throw new RocmForgeError('INVALID_FIELD', `${field} ${what}`, { field });
}

/** A text as vLLM reads one: what is in front of it and the names of special tokens in it are the tokenizer's matter. */
export const textInput = (text: string): PromptInput => ({
  $case: 'text',
  value: { text, parseSpecial: true, addSpecial: undefined },
});

export const tokenInput = (ids: number[]): PromptInput => ({ $case: 'tokens', value: { ids } });

const notImplemented = (field: string, what: string) =>
  new RocmForgeError('NOT_IMPLEMENTED', `${field} ${what}`, { field });

/** Property in which the code generator keeps unknown fields of a message: bytes by tag. */
const UNKNOWN = '_unknownFields';
/** A tag's bits that are not the field's number. */
const WIRE_TYPE_BITS = 3;

/** The first field, by its path and number, that the proto does not have; a field of another type is one. */
function unknownField(message: unknown, path: readonly string[] = []): string | undefined {
  if (typeof message !== 'object' || message === null || ArrayBuffer.isView(message)) return undefined;
  // Lists of numbers are long, and hold nothing.
  if (Array.isArray(message) && typeof message[0] !== 'object') return undefined;
  for (const [key, value] of Object.entries(message as Readonly<Record<string, unknown>>)) {
    if (key === UNKNOWN) {
      const [tag] = Object.keys(value as object);
      if (tag !== undefined) return [...path, Number(tag) >>> WIRE_TYPE_BITS].join('.');
      continue;
    }
    const { $case, value: inner } = isOneof(value) ? value : { $case: key, value };
    const found = unknownField(inner, [...path, snakeCase($case)]);
    if (found !== undefined) return found;
  }
  return undefined;
}

const isOneof = (value: unknown): value is { readonly $case: string; readonly value: unknown } =>
  typeof value === 'object' && value !== null && '$case' in value;

/** A field's name as its proto has it. */
export const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
