/** The dialog that makes or edits a monitor, with a preview of how often it would have fired. */
import { useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { TextField } from "../../kit/field.tsx";
import { navigate, queryOf } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import { Details, Rule, Watched } from "./fields.tsx";
import { EMPTY, type Form, formOf, isComplete, previewOf, ruleOf } from "./form.ts";
import { PreviewPart, usePreview } from "./preview.tsx";
import { METRICS } from "./words.ts";

/** Without a monitor the dialog makes a new one. */
export function Editor({ monitor, onClose }: { monitor?: Monitor | undefined; onClose: () => void }) {
  const [form, setForm] = useState<Form>(() =>
    monitor ? formOf(monitor) : { ...EMPTY, deployment_id: queryOf("deployment_id") ?? "" },
  );
  const [error, setError] = useState<ApiError | undefined>(undefined);
  const preview = usePreview(form);
  const change = (part: Partial<Form>) => {
    setError(undefined);
    setForm((before) => ({ ...before, ...part }));
  };
  const fields = { form, change, error: error ?? preview.error };
  const isReady = form.name.trim() !== "" && isComplete(form) && !preview.error;
  const save = async () => {
    const name = form.name.trim();
    try {
      const saved = monitor
        ? await api<Monitor>(`/v1/monitors/${monitor.id}`, { method: "PATCH", body: { name, ...ruleOf(form) } })
        : await api<Monitor>("/v1/monitors", { method: "POST", body: { name, ...previewOf(form) } });
      await reload("/v1/monitors");
      if (monitor) {
        toast("Saved");
        onClose();
      } else navigate(`/monitors/${saved.id}`);
    } catch (cause) {
      if (cause instanceof ApiError && cause.param) setError(cause);
      else toast(errorText(cause), "bad");
    }
  };
  return (
    <Dialog title={monitor ? "Edit monitor" : "New monitor"} onClose={onClose} wide>
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) void save();
        }}
      >
        <div class="monitors-editor">
          <div class="stack">
            <TextField
              label="Name"
              value={form.name}
              onInput={(name) => change({ name })}
              error={error?.param === "/name" ? error.message : undefined}
              placeholder="slow"
            />
            {monitor ? (
              <p class="muted">{`${METRICS[monitor.metric].name}. What a monitor watches stays; make a new one for another figure.`}</p>
            ) : (
              <Watched {...fields} />
            )}
            <Rule {...fields} />
            <Details {...fields} />
          </div>
          <PreviewPart preview={preview} form={form} />
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit disabled={!isReady}>
            {monitor ? "Save" : "Create monitor"}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
