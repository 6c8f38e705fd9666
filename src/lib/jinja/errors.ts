/** Error of a template: its syntax, an operation Python lacks, `raise_exception`, or more work than allowed. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
}

export function fail(message: string): never {
  throw new TemplateError(message);
}
