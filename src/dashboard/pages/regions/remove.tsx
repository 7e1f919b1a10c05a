import type { Region } from "../../../resources/machines/regions/schema.ts";
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { Confirm } from "../../kit/dialog.tsx";
import { attempt } from "../../shell/toasts.tsx";

export function Delete({ region: { id, name }, onClose }: { region: Region; onClose: () => void }) {
  const remove = () =>
    attempt(async () => {
      await api(`/v1/regions/${id}`, { method: "DELETE" });
      await reload("/v1/regions");
    }, `Deleted ${name}`);
  return (
    <Confirm title="Delete the region" verb="Delete" onConfirm={remove} onClose={onClose}>
      <p>No job and no deployment can run on {name} any more. Copied models and the executable stay on its disk.</p>
    </Confirm>
  );
}
