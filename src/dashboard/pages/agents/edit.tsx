/** A new agent, or the next version of one. */
import { useEffect, useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Agent } from "../../../resources/serving/agents/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { type Page as ListPage, reload, useResource } from "../../data/resource.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { JsonField } from "../../kit/code/editor.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Page as Frame, Loaded } from "../../kit/page.tsx";
import { navigate } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { bodyOf, EMPTY, type Faults, type Form, faultsOf, fieldOf, formOf } from "./form.ts";

export function Page({ params }: PageProps) {
  const { name } = params;
  const path = name === undefined ? null : `/v1/agents/${encodeURIComponent(name)}`;
  const agent = useResource<Agent>(path);
  const above: [string, string][] = [["Agents", "/agents"]];
  if (name !== undefined) above.push([name, `/agents/${encodeURIComponent(name)}`]);
  return (
    <Frame
      title={name === undefined ? "New agent" : `New version of ${name}`}
      purpose="A version never changes. Requests that name the agent use its newest version."
      above={above}
    >
      <Card>
        {path === null ? (
          <AgentForm first={EMPTY} />
        ) : (
          <Loaded of={agent}>{(row) => <AgentForm first={formOf(row)} isNext />}</Loaded>
        )}
      </Card>
    </Frame>
  );
}

function AgentForm({ first, isNext = false }: { first: Form; isNext?: boolean }) {
  const [form, setForm] = useState(first);
  const [refused, setRefused] = useState<Faults>({});
  const deployments = useResource<ListPage<Deployment>>("/v1/deployments?limit=100");
  const names = (deployments.data?.data ?? []).filter(({ status }) => status !== "stopped" && status !== "failed");
  const options = [
    ...new Set([...names.map(({ name }) => name), ...(first.deployment === "" ? [] : [first.deployment])]),
  ];
  useEffect(() => {
    if (form.deployment === "" && options[0] !== undefined) set("deployment")(options[0]);
  }, [options.length]);
  const set = (key: keyof Form) => (value: string) => setForm((before) => ({ ...before, [key]: value }));
  const faults: Faults = { ...refused, ...faultsOf(form) };
  const isReady = form.name.trim() !== "" && form.deployment !== "" && Object.keys(faultsOf(form)).length === 0;
  const save = async () => {
    setRefused({});
    try {
      const { name, version } = await api<Agent>("/v1/agents", { method: "POST", body: bodyOf(form) });
      toast(`Saved version ${version}`);
      await reload("/v1/agents");
      navigate(`/agents/${encodeURIComponent(name)}`);
    } catch (cause) {
      const field = cause instanceof ApiError ? fieldOf(cause.param) : undefined;
      if (field) setRefused({ [field]: errorText(cause) });
      toast(errorText(cause), "bad");
    }
  };
  const input = (key: keyof Form) => ({ value: form[key], onInput: set(key), error: faults[key] });
  return (
    <form
      class="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (isReady) void save();
      }}
    >
      <div class="grid half">
        {isNext ? null : (
          <TextField label="Name" {...input("name")} placeholder="support" hint="The model name in chat requests" />
        )}
        <SelectField
          label="Deployment"
          value={form.deployment}
          options={options.map((each) => [each, each] as const)}
          onChange={set("deployment")}
          hint={deployments.data && options.length === 0 ? "Deploy a model first" : "It answers the requests"}
          error={faults.deployment ?? (deployments.data ? undefined : deployments.error?.message)}
        />
      </div>
      <TextField label="Description" {...input("description")} hint="May be left empty" />
      <TextField
        label="System prompt"
        {...input("prompt")}
        rows={5}
        hint="Stands before the messages of each request"
      />
      <JsonField label="Tools" {...input("tools")} rows={4} hint="A JSON list, as in a chat request" />
      <div class="grid half">
        <TextField label="Temperature" {...input("temperature")} hint="0 to 2. Empty: the default of the server" />
        <TextField label="Most tokens of an answer" {...input("most")} />
        <TextField label="Top p" {...input("top_p")} hint="0 to 1" />
        <TextField label="Seed" {...input("seed")} />
      </div>
      <JsonField label="Other fields" {...input("more")} rows={3} hint='JSON, such as {"stop": "END"}' />
      <div class="row">
        <Button kind="primary" submit disabled={!isReady}>
          {isNext ? "Save version" : "Create agent"}
        </Button>
      </div>
    </form>
  );
}
