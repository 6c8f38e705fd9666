import type { ErrorReason } from './errors.js';

/** Meaning of an error reason and its remedy, one sentence each. */
export interface ErrorHelp {
  readonly meaning: string;
  readonly remedy: string;
}

/** Meaning and remedy of every reason; `docs/api.md` prints them beside the gRPC code and the HTTP status. */
export const ERROR_HELP: Readonly<Record<ErrorReason, ErrorHelp>> = {
  INVALID_FIELD: {
    meaning: 'A field of the request has a value that is not allowed.',
    remedy: 'Correct the field that `field` in the metadata names; the message says what is allowed.',
  },
  MALFORMED_MESSAGE: {
    meaning: 'The request is not a valid protobuf message or JSON document, or it arrived incomplete.',
    remedy: 'Send the request again with a client that is generated from the current schema.',
  },
  MESSAGE_TOO_LARGE: {
    meaning: 'The request or its response exceeds the size limit of the method.',
    remedy: 'Send a shorter request or several, or stream the response.',
  },
  PROMPT_TOO_LONG: {
    meaning: 'The prompt does not fit the context length of the model.',
    remedy: 'Shorten the prompt, or restart the gateway with a larger `--max-context`.',
  },
  TOKEN_OUT_OF_RANGE: {
    meaning: 'A token id is not in the vocabulary of the model.',
    remedy: 'Tokenize the text with this model (`Tokenize`), and send its ids.',
  },
  MODEL_NOT_FOUND: {
    meaning: 'The gateway serves no model of this name, or the hub has no such model.',
    remedy: 'Use a name that `ListModels` or `GET /v1/models` returns, or correct the name of the repository.',
  },
  STREAM_NOT_FOUND: {
    meaning:
      'The stream is not kept here: kept streams are in memory, and those without a reader are dropped after 5 minutes.',
    remedy: 'Send the request again.',
  },
  STREAM_CANCELLED: {
    meaning: 'The stream was cancelled by its client with `DELETE /v1/stream`.',
    remedy: 'Send the request again if its response is still wanted.',
  },
  RESPONSE_NOT_FOUND: {
    meaning:
      'The response, or the output item, is not stored here: responses are kept in memory, and the oldest are dropped.',
    remedy: 'Send the whole conversation as `input`.',
  },
  PATH_NOT_FOUND: {
    meaning: 'The HTTP API has no such path.',
    remedy: 'Correct the URL; docs/http.md lists the paths.',
  },
  METHOD_NOT_ALLOWED: {
    meaning: 'The path exists, but not for this HTTP method.',
    remedy:
      'Use the method that the `allow` header names; for requests of web pages start the gateway with `--cors-origins`.',
  },
  HOST_NOT_SERVED: {
    meaning: 'The `Host` header of the request does not name this machine, which protects against DNS rebinding.',
    remedy: 'Call the gateway by its address, or list the name with `--allowed-hosts`.',
  },
  CONTENT_TYPE_UNSUPPORTED: {
    meaning: 'The content type or encoding of the request is not supported.',
    remedy: 'Send `content-type: application/json`, or the type that the protocol requires, without compression.',
  },
  NOT_IMPLEMENTED: {
    meaning: 'The request uses a method or field that is not supported.',
    remedy: 'Leave the field out, or use another method.',
  },
  SWITCHED_OFF: {
    meaning: 'The path is disabled on this gateway.',
    remedy: 'Start the gateway with the option that the message names.',
  },
  CONSTRAINT_INVALID: {
    meaning: 'The JSON schema, regular expression or grammar of a structured output is not valid.',
    remedy: 'Correct it at the place that `at` in the metadata names.',
  },
  CONSTRAINT_UNSUPPORTED: {
    meaning: 'The JSON schema, regular expression or grammar uses a feature that is not supported.',
    remedy: 'Replace the keyword that `keyword` in the metadata names; docs/constraints.md lists what is supported.',
  },
  CONSTRAINT_TOO_SLOW: {
    meaning: 'The constraint takes too much time or memory per token.',
    remedy: 'Make the schema or grammar smaller or less ambiguous.',
  },
  CREDENTIAL_MISSING: {
    meaning: 'The gateway requires a credential, and the request has none.',
    remedy: 'Send `authorization: Bearer TOKEN`, or use a client certificate.',
  },
  CREDENTIAL_INVALID: {
    meaning: 'The gateway does not accept the token, JWT or certificate.',
    remedy: 'Check the credential, and that the gateway lists it (`--token-file`, `--jwks-file`, `--tls-client-ca`).',
  },
  CREDENTIAL_EXPIRED: {
    meaning: 'The JWT or client certificate has expired.',
    remedy: 'Get a new one and send the request again.',
  },
  RATE_LIMITED: {
    meaning: 'The client has reached one of its limits, which `limit` in the metadata names.',
    remedy: 'Wait as long as the response says, or raise the limit in the file of `--limits-file`.',
  },
  TOKENIZER_UNSUPPORTED: {
    meaning: 'The model file uses a tokenizer that is not supported.',
    remedy: 'Use another model; docs/tokenizers.md lists the supported tokenizers.',
  },
  TOKENIZER_INVALID: {
    meaning: 'The tokenizer data in the model file is damaged or contradictory.',
    remedy: 'Download or convert the model file again.',
  },
  CHAT_TEMPLATE_MISSING: {
    meaning: 'The model file has no chat template, which chat requests need.',
    remedy: 'Send the prompt as text, or start the gateway with `--chat-template`.',
  },
  CHAT_TEMPLATE_FAILED: {
    meaning: 'The chat template rejected the messages, failed, or took too long.',
    remedy: 'Correct the messages as the message says, or use another `--chat-template`.',
  },
  TEXT_TOO_SLOW: {
    meaning: 'Tokenizing or detokenizing the text took longer than allowed.',
    remedy: 'Send the request again later, or send a shorter text.',
  },
  MODEL_FILE_UNREADABLE: {
    meaning: 'The model file does not exist or cannot be read.',
    remedy: 'Correct the path or its permissions; write `hf.co/OWNER/REPOSITORY` for a model to download.',
  },
  GGUF_INVALID: {
    meaning: 'The file is not a GGUF file, or it is damaged or truncated.',
    remedy: 'Download or convert the file again.',
  },
  MODEL_UNSUPPORTED: {
    meaning: 'The architecture, a tensor type or a parameter of the model is not supported.',
    remedy: 'Use another model or quantization; docs/models.md lists what is supported.',
  },
  MODEL_FILE_CHANGED: {
    meaning: 'The model file was modified while it was served.',
    remedy: 'Restart the gateway; replace model files by renaming new ones, never in place.',
  },
  HUB_REFUSED: {
    meaning: 'The hub denies access to the model.',
    remedy: 'Set `HF_TOKEN`, and request access to a gated model on its page.',
  },
  HUB_BUSY: {
    meaning: 'The hub limits the rate of requests.',
    remedy: 'Try again later, or set `HF_TOKEN` for a higher limit.',
  },
  HUB_UNAVAILABLE: {
    meaning: 'The hub cannot be reached, or fails.',
    remedy: 'Check the network and `HF_ENDPOINT`, and try again.',
  },
  HUB_OFFLINE: {
    meaning: '`HF_HUB_OFFLINE` is set, and the model is not in the cache.',
    remedy: 'Unset `HF_HUB_OFFLINE` and download the model once.',
  },
  HUB_PROTOCOL: {
    meaning: 'The hub sent a response that does not follow its protocol.',
    remedy: 'Check that `HF_ENDPOINT` is a hub, and that no proxy changes its responses.',
  },
  CHECKSUM_MISMATCH: {
    meaning: 'A downloaded file does not have the checksum that the hub lists; it was deleted.',
    remedy: 'Download the model again.',
  },
  DISK_FULL: {
    meaning: 'A disk has too little space for a download, or for what a command writes.',
    remedy: 'Free space, or write to another disk; `HF_HOME` is the folder of downloaded models.',
  },
  QUEUE_FULL: {
    meaning: 'Too many requests or connections are waiting.',
    remedy:
      'Try again after the delay in the response; if it happens often, raise the limit that the message names, or add replicas.',
  },
  OUT_OF_MEMORY: {
    meaning: 'The model or the request does not fit the memory of the device.',
    remedy:
      'Lower `--max-context`, `--max-sequences` or `--kv-memory`, or use more GPUs; `inspect --fit` reports what fits.',
  },
  MODEL_LOADING: {
    meaning: 'The model is being loaded, or no executor serves it for the moment.',
    remedy: 'Try again after the delay in the response.',
  },
  MODEL_UNLOADED: {
    meaning: 'An operator has unloaded the model.',
    remedy: 'Load it with `rocmforge admin --load-model`, or use another model.',
  },
  MODEL_NOT_LOADED: {
    meaning:
      'The model is not loaded, and the request does not load it: the gateway runs with `--load on-command`, or it has `autoload=false`.',
    remedy: 'Load the model with `POST /models/load` or `rocmforge admin --load-model`.',
  },
  GATEWAY_UNAVAILABLE: {
    meaning: 'No gateway answers at the address that a command was given; gateways do not send it.',
    remedy: 'Start a gateway there, or correct `--address` and the TLS options, as the message says.',
  },
  EXECUTOR_UNAVAILABLE: {
    meaning: 'No executor can run the request at present.',
    remedy: 'Try again later; if it persists, run `rocmforge doctor` and read the log of the gateway.',
  },
  EXECUTOR_BUSY: {
    meaning: 'Another gateway uses the executor, or a step of it hangs.',
    remedy: 'Stop the other gateway or wait until its lease has expired; restart an executor that hangs.',
  },
  EXECUTOR_PROTOCOL: {
    meaning: 'The executor sent a message that does not follow the protocol between gateway and executor.',
    remedy: 'Run gateway and executor of the same release; if they are, report a bug with `rocmforge report`.',
  },
  ARITHMETIC_CHANGED: {
    meaning:
      'The executor was lost, and the one that replaces it has other numerics: its results may differ in the last bits.',
    remedy: 'Send the request again, or start the gateway with `--allow-other-arithmetic`.',
  },
  SHUTTING_DOWN: {
    meaning: 'The gateway is shutting down.',
    remedy: 'Send the request to another gateway, or again after the restart.',
  },
  REQUEST_QUARANTINED: {
    meaning: 'The executor failed each time it ran this request, also alone, and runs without it.',
    remedy: 'Do not send the request again; report it with `rocmforge report`.',
  },
  NON_FINITE_LOGITS: {
    meaning: 'The model computed NaN or infinite logits for this request.',
    remedy: 'Remove extreme penalties and logit biases, or use another quantization of the model.',
  },
  DEADLINE_EXCEEDED: {
    meaning: 'The deadline of a Connect call (`connect-timeout-ms`, `grpc-timeout`) passed before its response ended.',
    remedy: 'Send a later deadline, or generate fewer tokens.',
  },
  SLOW_READER: {
    meaning: 'The client did not read the response for too long.',
    remedy: 'Read streams without pauses, and send the request again.',
  },
  SLOW_SENDER: {
    meaning: 'The request did not arrive in time.',
    remedy: 'Send the request again without pauses, or over a faster connection.',
  },
  DEVICE_UNAVAILABLE: {
    meaning: 'The GPU, its driver or its runtime library cannot be used, or it is not the GPU that served before.',
    remedy: 'Run `rocmforge doctor`, and correct `--device` and `--gpu`.',
  },
  KERNELS_INVALID: {
    meaning: 'The kernels or the native addon are missing, damaged, or fail their self-test.',
    remedy: 'Reinstall the package, or build them again with `npm run build:kernels` and `npm run build:native`.',
  },
  SYSTEM_LIMIT: {
    meaning: 'A limit of the operating system, such as open files or threads, is too low.',
    remedy: 'Raise the limit that the message names.',
  },
  ADDRESS_IN_USE: {
    meaning: 'Another process listens on the address, or another file has the path of the socket.',
    remedy: 'Stop the other process, or use another address.',
  },
  INVALID_OPTION: {
    meaning: 'An option, environment variable or configuration file has a value that is not allowed.',
    remedy: 'Correct what the message names; `--help` of the command lists its options.',
  },
  INTERNAL: {
    meaning: 'An unexpected error, which is a bug.',
    remedy: 'Report it with the output of `rocmforge report`.',
  },
};
