import { asRocmForgeError } from '../../../shared/errors.js';
import type { GenerateStreamRequest } from '../../../shared/generated/rocmforge/v1/inference.js';
import { LargeRequest, wellFormed } from '../../../shared/grpc/strict.js';
import type { WaitingCall } from '../inference.js';
import type { Models } from '../models.js';
import { inTermsOf, type Protocol, translate } from '../protocols/protocol.js';
import { type ProtocolResponse, TranslatedStream } from '../protocols/translated-stream.js';
import type { ResponseStream } from '../response-stream.js';
import type { RunningRequests } from '../running-requests.js';
import { clientOf, type IncomingCall } from './caller.js';

/** Dependencies of all translated generations. */
export interface TranslatedApi {
  readonly models: Models;
  readonly running: RunningRequests;
}

/**
 * Runs a generation that was asked for in another protocol and answers in that protocol.
 *
 * @param reader where its messages go
 * @param answerOf makes the answer that writes them
 */
export async function serveTranslated<Request extends object, Response, Options>(
  { models, running }: TranslatedApi,
  protocol: Protocol<Request, Options>,
  call: IncomingCall & { readonly request: Request },
  reader: ResponseStream<Response>,
  answerOf: (options: Options) => ProtocolResponse,
): Promise<void> {
  const inTheirTerms = (error: unknown) => inTermsOf(protocol, asRocmForgeError(error));
  let stream: TranslatedStream | undefined;
  try {
    const client = clientOf(call);
    const { message, requestId, options } = await translated(models, protocol, wellFormed(call.request), client);
    let forget = (): void => undefined;
    const { inference } = await models.ofMessage(message, client);
    const started = new TranslatedStream(reader, answerOf(options), inTheirTerms, () => forget());
    stream = started;
    forget = running.add(client.principal, requestId, () => {
      started.abort();
      client.cancel();
    });
    client.signal.addEventListener('abort', forget, { once: true });
    if (client.signal.aborted) forget();
    await inference.generateStream(message, client, started);
  } catch (error) {
    if (stream === undefined) reader.fail(inTheirTerms(error));
    else stream.fail(asRocmForgeError(error));
  }
}

/** A request in our messages; a large one is decoded and translated in a thread. */
async function translated<Request extends object, Options>(
  models: Models,
  protocol: Protocol<Request, Options>,
  request: Request | LargeRequest,
  client: WaitingCall,
): Promise<{
  readonly message: GenerateStreamRequest | LargeRequest;
  readonly requestId: string;
  readonly options: Options;
}> {
  if (!(request instanceof LargeRequest)) {
    const { request: message, options } = translate(protocol, request);
    return { message, requestId: message.requestId, options };
  }
  const { bytes, requestId, options } = await models.translate(protocol.service, request, client);
  // The thread ran this protocol's own translation.
  return { message: new LargeRequest(bytes), requestId, options: options as Options };
}
