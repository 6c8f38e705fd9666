/** What a template does wrong: its syntax, an operation Python has not, `raise_exception`, or more work than it may do. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
}

export function fail(message: string): never {
  throw new TemplateError(message);
}
