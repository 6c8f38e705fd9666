/** A tokenizer that is damaged or not known exactly, or a text or an id that it does not take. */
export class TokenizerError extends Error {
  override readonly name = 'TokenizerError';

  /** @param metadata the key of the model file, or the field that is meant */
  constructor(
    readonly reason: 'TOKENIZER_INVALID' | 'TOKENIZER_UNSUPPORTED' | 'TOKEN_OUT_OF_RANGE' | 'INVALID_FIELD',
    message: string,
    readonly metadata: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}
