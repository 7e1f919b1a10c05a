/** A button that starts a new run from a model, or from the result of a run. */
import { useState } from "preact/hooks";
import { Button } from "../../../kit/button.tsx";
import { Dialog } from "../../../kit/dialog.tsx";
import type { Method } from "../methods.ts";

const WAYS: readonly (readonly [method: Method, title: string, says: string])[] = [
  ["sft", "SFT", "Learn from examples: prompts with the answers that you want."],
  ["dpo", "DPO", "Learn from preferred answers: pairs of a better and a worse one."],
  ["grpo", "GRPO", "Learn from a reward: code that scores the answers of the model."],
];

type TrainOnProps = {
  /** The name of a model, or the id of a job: its result. */
  model: string;
  /** The rank of its LoRA: a run with the same rank goes on with the adapter itself. */
  rank?: number | undefined;
  /** The model is not ready. */
  isOff?: boolean | undefined;
};

export function TrainOn({ model, rank, isOff = false }: TrainOnProps) {
  const [isOpen, setIsOpen] = useState(false);
  const href = (method: Method) =>
    `/runs/new?${new URLSearchParams({ model, method, ...(rank === undefined ? {} : { rank: String(rank) }) })}`;
  return (
    <>
      <Button disabled={isOff} onClick={() => setIsOpen(true)}>
        Train on from here
      </Button>
      {isOpen && (
        <Dialog title="Train on from here" onClose={() => setIsOpen(false)}>
          <div class="runs-ways">
            {WAYS.map(([method, title, says]) => (
              <a key={method} href={href(method)} aria-label={`Train by ${title}`} onClick={() => setIsOpen(false)}>
                <b>{title}</b>
                <span>{says}</span>
              </a>
            ))}
          </div>
        </Dialog>
      )}
    </>
  );
}
