import { Wrench } from 'lucide';
import { useState } from 'preact/hooks';
import { isRunning, messages, sendResults } from '../chat/chat-store.js';
import type { Message, ToolCall } from '../chat/conversation.js';
import { Icon } from './icon.js';

/** The calls of an answer; their results are typed or pasted, because this page runs no tools. */
export function ToolCalls({ message }: { readonly message: Message }) {
  const { id, toolCalls, state } = message;
  const [results, setResults] = useState<readonly string[]>([]);
  if (toolCalls.length === 0) return null;
  const isAnswered = [...messages.value.values()].some(({ parent, role }) => parent === id && role === 'tool');
  const isOpen = state === 'complete' && !isAnswered;
  return (
    <form
      class="tool-calls"
      onSubmit={(event) => {
        event.preventDefault();
        void sendResults(message, results);
      }}
    >
      {toolCalls.map((call, i) => (
        <section key={call.id || i} class="tool-call" aria-label={`Call of ${call.name}`}>
          <h3>
            <Icon node={Wrench} /> <bdi>{call.name}</bdi>
          </h3>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
          <section class="scroll" tabIndex={0} aria-label="Arguments">
            <pre>
              <code>{formatted(call)}</code>
            </pre>
          </section>
          {isOpen && (
            <label>
              Result
              <textarea
                rows={2}
                value={results[i] ?? ''}
                onInput={({ currentTarget: { value } }) =>
                  setResults(toolCalls.map((_, j) => (j === i ? value : (results[j] ?? ''))))
                }
              />
            </label>
          )}
        </section>
      ))}
      {isOpen && (
        <button type="submit" disabled={isRunning.value}>
          Send {toolCalls.length === 1 ? 'result' : 'results'}
        </button>
      )}
    </form>
  );
}

/** Arguments with line breaks, if that changes nothing else in them: a number that JavaScript rounds stays as it is. */
function formatted({ args }: ToolCall): string {
  try {
    const value: unknown = JSON.parse(args);
    const compact = args.replace(/("(?:\\.|[^"\\])*")|\s+/g, '$1');
    return JSON.stringify(value) === compact ? JSON.stringify(value, undefined, 2) : args;
  } catch {
    return args;
  }
}
