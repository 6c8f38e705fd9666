import { strip } from '../../lib/jinja/text.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { ChatPrompt } from './injection-guard.js';

/** A content whose end can be found in a prompt. @param mark a character that is nowhere else */
export function markedEnd(content: string, mark: string): string {
  return `${content}${mark} `;
}

/**
 * A prompt that ends behind the content of its final turn, by the rule of `continue_final_message` in Hugging Face's
 * transformers: white space at the content's end stays unless the template trims it.
 *
 * @param rendered the conversation with that turn as one that has ended, its content made by {@link markedEnd}
 * @throws RocmForgeError `CHAT_TEMPLATE_FAILED` where the template does not render the turn
 */
export function continuedPrompt({ text, breaks }: ChatPrompt, mark: string): ChatPrompt {
  const at = text.lastIndexOf(mark);
  if (at < 0) {
    throw new RocmForgeError(
      'CHAT_TEMPLATE_FAILED',
      'the chat template does not render the final assistant turn, so it cannot be continued; end the conversation with a user turn',
    );
  }
  const before = text.slice(0, at);
  const prompt = text[at + 1] === ' ' ? before : strip(before, 'right');
  return { text: prompt, breaks: breaks.filter((each) => each <= prompt.length) };
}
