/** Rename, quantize and delete. */
import { useState } from "preact/hooks";
import { QUANTIZATIONS, type Quantization } from "../../../lib/checkpoints/mix.ts";
import { errorText } from "../../../lib/error_text.ts";
import { api } from "../../data/api.ts";
import { bytes, words } from "../../data/format.ts";
import { deleteResource, reload, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Ref } from "../../kit/content.tsx";
import { Dialog, FormDialog } from "../../kit/dialog.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Loaded } from "../../kit/page.tsx";
import { navigate } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import { type Model, type ModelDependents, modelPath } from "./types.ts";

type DialogProps = { model: Model; onClose: () => void };

export function RenameModel({ model, onClose }: DialogProps) {
  const [name, setName] = useState(model.name);
  const rename = async () => {
    await api(modelPath(model.id), { method: "PATCH", body: { name: name.trim() } });
    await reload("/v1/models");
  };
  return (
    <FormDialog
      title="Rename this model"
      verb="Rename"
      isReady={name.trim() !== "" && name.trim() !== model.name}
      onSubmit={rename}
      onClose={onClose}
    >
      <TextField
        label="Name"
        value={name}
        onInput={setName}
        hint="Its deployments and adapters stay with it. Runs keep the name that they were created with."
      />
    </FormDialog>
  );
}

/** Bits of a weight, for the size that is expected. */
const BITS: Record<Quantization, number> = { Q8_0: 8.5, Q6_K: 6.6, Q5_K_M: 5.7, Q4_K_M: 4.9 };
const SAYS: Record<Quantization, string> = {
  Q8_0: "nearly as exact as the model",
  Q6_K: "hardly any loss",
  Q5_K_M: "a small loss",
  Q4_K_M: "the usual choice for little memory",
};

export function QuantizeModel({ model, onClose }: DialogProps) {
  const [type, setType] = useState<Quantization>("Q4_K_M");
  const [name, setName] = useState("");
  const sizeOf = (each: Quantization) => bytes(((model.parameters ?? 0) * BITS[each]) / 8);
  const quantize = async () => {
    const body = { quantization: type, ...(name.trim() === "" ? {} : { name: name.trim() }) };
    const copy = await api<Model>(modelPath(model.id, "/quantize"), { method: "POST", body });
    void reload("/v1/models");
    navigate(`/models/${copy.id}`);
  };
  return (
    <FormDialog title="Quantize this model" verb="Quantize" onSubmit={quantize} onClose={onClose}>
      <SelectField
        label="Type of the weights"
        value={type}
        options={QUANTIZATIONS.map((each) => [each, `${each}: about ${sizeOf(each)}, ${SAYS[each]}`] as const)}
        onChange={setType}
      />
      <TextField
        label="Name"
        value={name}
        onInput={setName}
        placeholder={`${model.name}-${type.toLowerCase()}`}
        hint="The copy is a model of its own. It is made in the background; this model stays as it is."
      />
    </FormDialog>
  );
}

type Dependent = ModelDependents["dependents"][number];

const PAGES: Record<Dependent["kind"], string> = {
  deployment: "/deployments/:id",
  training_job: "/runs/:id",
  adapter: "/models/:id",
  copy: "/models/:id",
};
const KINDS: Record<Dependent["kind"], string> = {
  deployment: "Deployment",
  training_job: "Run",
  adapter: "Adapter",
  copy: "Copy that is being made",
};

/** Lists first what uses the model; it goes with the model. A run that trains on it must be ended on its own page. */
export function DeleteModel({ model, onClose }: DialogProps) {
  const found = useResource<ModelDependents>(modelPath(model.id, "/dependents"), {
    events: ["deployment.", "job.", "model."],
  });
  const [error, setError] = useState<string>();
  const remove = async (dependents: readonly Dependent[]) => {
    try {
      for (const { kind, id } of dependents)
        if (kind === "deployment") await api(`/v1/deployments/${id}/stop`, { method: "POST" });
        else await removeWithUsers(id);
      await deleteResource(modelPath(model.id));
      toast(`Deleted ${model.name}`);
      await reload("/v1/models?");
      onClose();
      navigate("/models");
    } catch (cause) {
      setError(errorText(cause));
      await found.refresh();
    }
  };
  return (
    <Dialog title={`Delete ${model.name}?`} onClose={onClose}>
      <div class="stack">
        <Loaded of={found}>
          {({ dependents }) => {
            const runs = dependents.filter(({ kind }) => kind === "training_job");
            return (
              <>
                {dependents.length === 0 && <p>Nothing uses it. Its file is deleted too.</p>}
                {dependents.length > 0 && (
                  <>
                    <p>
                      {runs.length > 0
                        ? "Runs train on it: cancel them first, or wait until they have ended."
                        : "These depend on it. Deployments are stopped, and adapters and copies deleted, before the model goes."}
                    </p>
                    <ul class="models-dependents">
                      {dependents.map(({ kind, id, name, status }) => (
                        <li key={id}>
                          <small>{KINDS[kind]}</small> <Ref page={PAGES[kind]} id={id} children={name} />{" "}
                          <small>{words(status)}</small>
                        </li>
                      ))}
                    </ul>
                  </>
                )}
                {error !== undefined && (
                  <p class="bad" role="alert">
                    {error}
                  </p>
                )}
                <footer>
                  <Button onClick={onClose}>Cancel</Button>
                  <Button kind="danger" disabled={runs.length > 0} onClick={() => remove(dependents)}>
                    {dependents.length === 0 ? "Delete" : `Delete all ${dependents.length + 1}`}
                  </Button>
                </footer>
              </>
            );
          }}
        </Loaded>
      </div>
    </Dialog>
  );
}

/** An adapter may be deployed. */
async function removeWithUsers(id: string) {
  const { dependents } = await api<ModelDependents>(modelPath(id, "/dependents"));
  for (const { kind, id: user } of dependents)
    if (kind === "deployment") await api(`/v1/deployments/${user}/stop`, { method: "POST" });
  await deleteResource(modelPath(id));
}
