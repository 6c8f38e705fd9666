import { memo } from 'preact/compat';
import { useState } from 'preact/hooks';
import type { TokenChoice } from '../chat/conversation.js';

/** Tokens of a group: while an answer streams only its last group is rendered again. */
const GROUP = 100;

const percent = (logprob: number): string => `${(100 * Math.exp(logprob)).toFixed(1)} %`;

/** Classes of colors by probability. */
const levelOf = (logprob: number): number => Math.min(4, Math.floor(5 * (1 - Math.exp(logprob))));

/** The tokens of an answer with their probabilities, on hover and with the keyboard. */
export function TokensView({ choices }: { readonly choices: readonly TokenChoice[] }) {
  const [chosen, setChosen] = useState<TokenChoice>();
  const groups = [];
  for (let i = 0; i < choices.length; i += GROUP) {
    groups.push(
      <Group key={i} choices={choices} from={i} to={Math.min(choices.length, i + GROUP)} onChoose={setChosen} />,
    );
  }
  return (
    <div class="tokens">
      <div class="plain content">{groups}</div>
      <div class="alternatives" aria-live="polite">
        {chosen === undefined ? 'Point at a token to see its probability.' : <Alternatives choice={chosen} />}
      </div>
    </div>
  );
}

interface GroupProps {
  readonly choices: readonly TokenChoice[];
  readonly from: number;
  readonly to: number;
  readonly onChoose: (choice: TokenChoice) => void;
}

const Group = memo(
  function Group({ choices, from, to, onChoose }: GroupProps) {
    return (
      <span>
        {choices.slice(from, to).map((choice) => (
          <button
            type="button"
            class={`token level-${levelOf(choice.logprob)}`}
            title={percent(choice.logprob)}
            onMouseEnter={() => onChoose(choice)}
            onFocus={() => onChoose(choice)}
          >
            {choice.text}
          </button>
        ))}
      </span>
    );
  },
  (before, after) => before.to === after.to && before.choices[before.to - 1] === after.choices[after.to - 1],
);

function Alternatives({ choice: { text, logprob, top } }: { readonly choice: TokenChoice }) {
  return (
    <table>
      <caption>
        {JSON.stringify(text)}: {percent(logprob)} ({logprob.toFixed(3)})
      </caption>
      <tbody>
        {top.map(([token, value]) => (
          <tr>
            <th scope="row">{JSON.stringify(token)}</th>
            <td>{percent(value)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
