/** A model file that cannot be read or has changed, contradicts itself or the format, or has an unknown kind. */
export class GgufError extends Error {
  override readonly name = 'GgufError';

  /** @param metadata the key or the tensor that is meant */
  constructor(
    readonly reason:
      | 'GGUF_INVALID'
      | 'MODEL_UNSUPPORTED'
      | 'MODEL_FILE_UNREADABLE'
      | 'MODEL_FILE_CHANGED'
      | 'INVALID_OPTION',
    message: string,
    readonly metadata: Readonly<Record<string, string>> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
