/** The exact tokens of a turn: which the model wrote, and how likely or how good they were. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import { api } from "../../data/api.ts";
import { number, percent } from "../../data/format.ts";
import { Button } from "../../kit/button.tsx";
import { Skeleton } from "../../kit/page.tsx";
import { toneOf } from "../playground/tokens.ts";
import type { Turn } from "./types.ts";

export type Worth = { name: string; value: number } | undefined;
export const COLOURS = [
  ["likely", "Probability"],
  ["worth", "Reward"],
] as const;
export type Colour = (typeof COLOURS)[number][0];

type Pieces = { read: readonly string[]; written: readonly string[] };
const kept = new Map<string, Pieces>();
const MOST_KEPT = 200;

/** The texts of the tokens, by the tokenizer of the model that drew them. */
async function piecesOf(model: string, { prompt_token_ids: read, token_ids: written }: Turn): Promise<Pieces> {
  const tokens = [...read, ...written];
  const body = { model, tokens, with_pieces: true };
  const { pieces } = await api<{ pieces: string[] }>("/detokenize", { method: "POST", body });
  return { read: pieces.slice(0, read.length), written: pieces.slice(read.length) };
}

type TokensProps = { rollout: string; turn: Turn; model: string; colour: Colour; worth: Worth };

export function Tokens({ rollout, turn, model, colour, worth }: TokensProps) {
  const key = `${rollout} ${turn.number} ${turn.token_ids.length}`;
  const [, setLoaded] = useState("");
  const [error, setError] = useState<string>();
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (kept.has(key)) return;
    let isLeft = false;
    setError(undefined);
    piecesOf(model, turn)
      .then((pieces) => {
        if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value ?? "");
        kept.set(key, pieces);
        if (!isLeft) setLoaded(key);
      })
      .catch((cause: unknown) => isLeft || setError(errorText(cause)));
    return () => {
      isLeft = true;
    };
  }, [key, tries]);
  const pieces = kept.get(key);
  if (error !== undefined)
    return (
      <div class="errorbox" role="alert">
        <p>
          <b>The model must be served for the texts of its tokens</b>
          <span>{error}</span>
        </p>
        <Button onClick={() => setTries(tries + 1)}>Retry</Button>
      </div>
    );
  if (!pieces) return <Skeleton rows={2} />;
  return (
    <pre class="text rollouts-tokens">
      <Read text={pieces.read.join("")} />
      {pieces.written.map((text, i) => (
        <span
          key={i}
          class={`rollouts-token ${colour === "worth" ? worthTone(worth) : toneOf(Math.exp(turn.logprobs[i] ?? 0))}`}
          title={`${text === "" ? "No text of its own" : JSON.stringify(text)}, token ${turn.token_ids[i]}, ${percent(Math.exp(turn.logprobs[i] ?? 0), 1)}${worth ? `, ${worth.name.toLowerCase()} ${number(worth.value)}` : ""}`}
        >
          {text === "" ? "·" : text}
        </span>
      ))}
    </pre>
  );
}

const LONG = 4_000;

/** The agent's part. The middle of a long one is folded. */
function Read({ text }: { text: string }) {
  const [isOpen, setIsOpen] = useState(false);
  if (text.length <= LONG || isOpen) return <span class="rollouts-read">{text}</span>;
  return (
    <>
      <span class="rollouts-read">{text.slice(0, LONG / 2)}</span>
      <Button kind="quiet" onClick={() => setIsOpen(true)}>
        {`Show ${text.length - LONG} more characters`}
      </Button>
      <span class="rollouts-read">{text.slice(-LONG / 2)}</span>
    </>
  );
}

const worthTone = (worth: Worth) => (!worth || worth.value === 0 ? "even" : worth.value > 0 ? "up" : "down");

export const Legend = ({ colour, worth }: { colour: Colour; worth: Worth }) => (
  <p class="rollouts-legend" role="note">
    <span class="rollouts-read">Read by the model (mask 0)</span>
    {colour === "worth" ? (
      <span class={`rollouts-token ${worthTone(worth)}`}>
        {worth
          ? `Written by it (mask 1): ${worth.name.toLowerCase()} ${number(worth.value)}`
          : "Written by it (mask 1): no reward"}
      </span>
    ) : (
      <>
        <span class="rollouts-token sure">Written by it (mask 1): likely</span>
        <span class="rollouts-token likely">under 90 %</span>
        <span class="rollouts-token unsure">under 50 %</span>
        <span class="rollouts-token rare">under 15 %</span>
      </>
    )}
  </p>
);
