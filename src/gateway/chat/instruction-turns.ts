import { RocmForgeError } from '../../shared/errors.js';
import type { ChatMessage } from './template-input.js';
import type { TemplateProbe } from './template-probe.js';

type Turns = readonly ChatMessage[];

/** Renders turns to a prompt. @throws RocmForgeError `CHAT_TEMPLATE_FAILED` */
type RenderTurns = (turns: Turns) => string;

/**
 * The turns in the first form in which the template shows every system and developer turn: as they are; developer turns as
 * system turns, unless the template has a form of its own for them; all of them joined to one system turn at the start.
 *
 * @param sentinel a character that is nowhere in the conversation
 * @throws RocmForgeError `INVALID_FIELD` where each form drops one; `CHAT_TEMPLATE_FAILED` where the template fails on each
 */
export function shownInstructions(
  turns: Turns,
  probe: Pick<TemplateProbe, 'knowsDeveloper' | 'dropsSystem'>,
  render: RenderTurns,
  sentinel: () => string,
): Turns {
  if (!turns.some(isInstruction)) return turns;
  const isDeveloper = ({ role }: ChatMessage) => role === 'developer';
  const named =
    turns.some(isDeveloper) && !probe.knowsDeveloper
      ? turns.map((turn) => (isDeveloper(turn) ? { ...turn, role: 'system' } : turn))
      : turns;
  const forms = [named, joined(named)].filter(
    (form, i, all) => i === 0 || form.length !== all[0]!.length || form.some((turn, at) => turn !== all[0]![at]),
  );
  let failure: RocmForgeError | undefined;
  for (const form of forms) {
    // A template that has one only at the start was made for that: in some its position depends on the other turns.
    if (isCommon(form)) {
      if (!probe.dropsSystem) return form;
      continue;
    }
    try {
      if (showsAll(form, render, sentinel())) return form;
    } catch (error) {
      if (!(error instanceof RocmForgeError) || error.reason !== 'CHAT_TEMPLATE_FAILED') throw error;
      failure ??= error;
    }
  }
  if (failure !== undefined) throw failure;
  return refuse(turns);
}

function isInstruction({ role }: ChatMessage): boolean {
  return role === 'system' || role === 'developer';
}

function isCommon(turns: Turns): boolean {
  return turns[0]?.role === 'system' && !turns.slice(1).some(isInstruction);
}

function joined(turns: Turns): Turns {
  const contents = turns.filter(isInstruction).map(({ content }) => content);
  const content = contents.filter((text) => text.trim() !== '').join('\n\n');
  return [{ role: 'system', content }, ...turns.filter((turn) => !isInstruction(turn))];
}

/** True if a mark at the end of each instruction comes out of the template. */
function showsAll(turns: Turns, render: RenderTurns, sentinel: string): boolean {
  const marks: string[] = [];
  const marked = turns.map((turn) => {
    if (!isInstruction(turn) || turn.content.trim() === '') return turn;
    const mark = `${sentinel}${marks.length}${sentinel}`;
    marks.push(mark);
    return { ...turn, content: `${turn.content}${mark}` };
  });
  const rendered = render(marked);
  return marks.every((mark) => rendered.includes(mark));
}

function refuse(turns: Turns): never {
  const at = turns.findIndex((turn, i) => isInstruction(turn) && (i > 0 || turns.length === 1));
  const index = Math.max(at, 0);
  const field = `chat.messages[${index}].role`;
  const sentence = `${field} is "${turns[index]!.role}", and the chat template drops such a turn; put its content into a user turn`;
  throw new RocmForgeError('INVALID_FIELD', sentence, { field });
}
