/** The first training: uploads sums and starts GRPO on the tiny model that Verk comes with. */
import { LORA, RECIPE, REWARD, SEED, splitRows } from "../../../lib/training/sums.ts";
import { api } from "../../data/api.ts";

const NAME = "first-run";
/** Enough to see that it learns. `verk demo` trains longer. */
const STEPS = 24;

/** The same rows give the same dataset: a second training does not upload a second one. */
export async function startFirstRun(): Promise<{ id: string }> {
  const rows = splitRows().train.map((row) => `${JSON.stringify(row)}\n`);
  const form = new FormData();
  form.set("name", "sums");
  form.set("file", new File(rows, "sums.jsonl"));
  const dataset = await api<{ id: string }>("/v1/datasets", { method: "POST", body: form });
  const job = {
    base_model: "verk-tiny",
    method: "grpo",
    output_name: NAME,
    dataset: dataset.id,
    reward_source: REWARD,
    hyperparameters: { ...RECIPE, max_steps: STEPS },
    lora: LORA,
    seed: SEED,
  };
  return await api<{ id: string }>("/v1/training_jobs", { method: "POST", body: job });
}
