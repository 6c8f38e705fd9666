/** An error response, or an error event of a stream. */
export class ServerError extends Error {
  constructor(
    message: string,
    /** HTTP status; 0 for an event of a stream. */
    readonly status: number,
    /** Reason as the list of errors has it. */
    readonly code: string,
    /** Field of the request that the error names. */
    readonly param: string,
  ) {
    super(message);
  }
}

/** Error object of OpenAI's API. */
export interface ErrorBody {
  readonly message?: unknown;
  readonly code?: unknown;
  readonly param?: unknown;
}

/** @param status absent: an event of a stream */
export const errorOf = ({ message, code, param }: ErrorBody, status = 0): ServerError =>
  new ServerError(String(message ?? 'the request failed'), status, String(code ?? ''), String(param ?? ''));
