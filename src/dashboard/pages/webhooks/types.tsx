import { PUBLISHED_TYPES } from "../../../lib/webhooks/published.ts";
import { plural } from "../../data/format.ts";
import { CheckField } from "../../kit/field.tsx";

type TypeChoiceProps = { chosen: readonly string[]; onChange: (types: readonly string[]) => void };

/** None chosen: all types, also those of later versions. */
export const TypeChoice = ({ chosen, onChange }: TypeChoiceProps) => (
  <details class="webhooks-types">
    <summary>{chosen.length === 0 ? "All events" : plural(chosen.length, "event type")}</summary>
    <div>
      {PUBLISHED_TYPES.map((type) => (
        <CheckField
          key={type}
          label={type}
          checked={chosen.includes(type)}
          onChange={(on) => onChange(on ? [...chosen, type] : chosen.filter((each) => each !== type))}
        />
      ))}
    </div>
  </details>
);
