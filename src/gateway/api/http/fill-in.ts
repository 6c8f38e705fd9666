import type { FillInTokens } from '../../../lib/tokenizer/fill-in-tokens.js';
import { RocmForgeError } from '../../../shared/errors.js';
import type { GenerateStreamRequest, PromptPart } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { Fields } from './fields.js';
import type { FormDefaults } from './request.js';

/** A text with a gap, and what the model is shown before it. */
export interface GappedText {
  readonly prefix: string;
  readonly suffix: string;
  /** Other files: texts that the model may draw on. */
  readonly files: readonly { readonly name: string; readonly text: string }[];
}

/** Names that llama.cpp gives a repository and a file without one. */
const [REPOSITORY, FILE, SNIPPET] = ['myproject\n', 'filename\n', '\n\n--- snippet ---\n\n'];

/**
 * The prompt with which a model fills the gap, as llama.cpp writes it: other files, prefix, suffix, and the token that begins the
 * middle. Only these tokens are special; texts are plain.
 *
 * @param field for the error
 * @throws RocmForgeError `NOT_IMPLEMENTED` for a model without such tokens
 */
export function fillInInput(
  { prefix, suffix, files }: GappedText,
  { fillIn }: FormDefaults,
  field: string,
): NonNullable<GenerateStreamRequest['input']> {
  if (fillIn === undefined) {
    const what = `${field} is not supported by this model: its vocabulary has no tokens to fill in a middle`;
    throw new RocmForgeError('NOT_IMPLEMENTED', what, { field });
  }
  const parts: PromptPart[] = [
    ...(fillIn.repository === undefined && files.length === 0 ? [] : filesOf(files, fillIn)),
    ...tokens(fillIn.bos, fillIn.prefix),
    ...text(prefix),
    ...tokens(fillIn.suffix),
    ...text(suffix),
    ...tokens(fillIn.middle),
  ];
  return { $case: 'mixed', value: { parts } };
}

function filesOf(files: GappedText['files'], { repository, file }: FillInTokens): readonly PromptPart[] {
  const parts: PromptPart[] = [];
  if (repository !== undefined) parts.push(...tokens(repository), ...text(REPOSITORY));
  for (const { name, text: content } of files) {
    if (file === undefined) parts.push(...text(SNIPPET));
    else parts.push(...tokens(file), ...text(`${name}\n`));
    parts.push(...text(content));
  }
  if (file !== undefined) parts.push(...tokens(file), ...text(FILE));
  return parts;
}

function tokens(...ids: readonly (number | undefined)[]): readonly PromptPart[] {
  const given = ids.filter((id) => id !== undefined);
  return given.length === 0 ? [] : [{ part: { $case: 'tokens', value: { ids: given } } }];
}

function text(value: string): readonly PromptPart[] {
  if (value === '') return [];
  return [{ part: { $case: 'text', value: { text: value, parseSpecial: false, addSpecial: false } } }];
}

/** llama.cpp's `input_extra`: other files. */
export function extraFiles(fields: Fields): GappedText['files'] {
  return (fields.objects('input_extra') ?? []).map((extra) => {
    const file = {
      name: extra.string('filename') ?? 'tmp',
      text: extra.string('text') ?? extra.refuse('text', 'is missing'),
    };
    extra.ignore('time');
    extra.end();
    return file;
  });
}
