import { asRocmForgeError, RocmForgeError } from '../../../shared/errors.js';

/** Names that a request has for fields of the public API, as its reader noted them: plain data, so that it may be read in another thread. */
export type FieldNames = Readonly<Record<string, string>>;

/** A field of the public API in a message; not in quotes, where it is a client's word. */
const MENTIONED = /(?<![\w."`/])(?:chat|sampling|stop|output|constraint)\.[a-z_]+(?:\[\d+\]|\.[a-z_]+)*/g;

/** A field, or the input by its kind, at the beginning of a message. Elsewhere such words are English. */
const FIRST_WORD = /^[a-z_]+(?:\[\d+\]|\.[a-z_]+)*/;

/**
 * The error with the request's own names of fields: `sampling.top_p` of the public API is `top_p` in OpenAI's and `options.top_p` in
 * Ollama's.
 */
export function inTermsOf(error: RocmForgeError, names: FieldNames): RocmForgeError {
  return renamed(error, (field) => nameIn(names, field));
}

/** Runs what checks a request that was read; its errors have the request's names. @throws RocmForgeError */
export function namingFields<T>(names: FieldNames, check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw inTermsOf(asRocmForgeError(error), names);
  }
}

/** @param nameOf the request's name of a field; undefined if it is the same */
export function renamed(error: RocmForgeError, nameOf: (field: string) => string | undefined): RocmForgeError {
  const { field } = error.metadata;
  const name = field === undefined ? undefined : nameOf(field);
  if (name === undefined) return error;
  const message = error.message
    .replace(FIRST_WORD, (word) => (word === field ? name : (nameOf(word) ?? word)))
    .replace(MENTIONED, (word) => (word === field ? name : (nameOf(word) ?? word)));
  return new RocmForgeError(error.reason, message, { ...error.metadata, field: name }, { cause: error });
}

/** The name of a field, or of the field that it is a part of. */
function nameIn(names: FieldNames, field: string): string | undefined {
  for (let part = field; part !== ''; part = part.replace(/(?:^|\.)[^.[\]]*$|\[\d+\]$/, '')) {
    if (Object.hasOwn(names, part)) return names[part];
  }
  if (field === 'chat') return 'messages';
  return field.startsWith('chat.') ? ofChat(field.slice('chat.'.length)) : undefined;
}

/** A field of a conversation as OpenAI's chats have it. Without an index it is a part of every item, and the list is named. */
const ofChat = (field: string): string =>
  field
    .replace(/^(tools|messages)\..*$/, '$1')
    .replace(/^(tools\[\d+\]\.)(?:parameters_json)$/, '$1function.parameters')
    .replace(/^(tools\[\d+\]\.)(name|description|strict)$/, '$1function.$2');
