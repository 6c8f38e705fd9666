import { RocmForgeError } from '../../shared/errors.js';

/** Error of conversations with a model without a chat template. */
export const missingChatTemplate = (): RocmForgeError =>
  new RocmForgeError(
    'CHAT_TEMPLATE_MISSING',
    'the model file has no "tokenizer.chat_template"; send the prompt as text, or start the gateway with --chat-template',
  );
