/** /v1/conversations in the format of OpenAI. `name`, `parent_id`, `model` and the list of conversations are additions. */
import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { Label, later, Metadata } from "../../../lib/schema.ts";
import { seconds } from "../files/schema.ts";
import { InputItem } from "../responses/items.ts";
import type { StoredItem } from "./stored_item.ts";
import type { ConversationRow, ItemRow } from "./table.ts";

export const MAX_NEW_ITEMS = 20;

const addition = {
  parent_id: z
    .string()
    .nullish()
    .describe(
      "The item of this conversation that this one follows; null = none. Default: the item before it in the request, for the first one the newest item. Several items that follow the same one are branches",
    ),
  model: z.string().max(200).nullish().describe("The model that wrote it, as you name it"),
};

/** The two fields beside those of an item of any kind. */
export const NewItem = later(() =>
  z.intersection(InputItem.unwrap(), z.object(addition)).meta({ id: "NewConversationItem" }),
);
export type NewItem = z.output<typeof NewItem>;

const fields = {
  metadata: Metadata.nullish(),
  name: Label(200).nullish(),
};

export const CreateConversation = later(() =>
  z
    .object({ items: z.array(NewItem.unwrap()).max(MAX_NEW_ITEMS).nullish(), ...fields })
    .meta({ id: "CreateConversation" }),
);
export type CreateConversation = z.output<typeof CreateConversation>;

export const UpdateConversation = later(() =>
  z.object(fields).meta({ id: "UpdateConversation", description: "What is left out stays. null removes it" }),
);
export type UpdateConversation = z.output<typeof UpdateConversation>;

export const CreateItems = later(() =>
  z.object({ items: z.array(NewItem.unwrap()).min(1).max(MAX_NEW_ITEMS) }).meta({ id: "CreateConversationItems" }),
);

export const ItemsQuery = PageQuery.extend({
  order: z.enum(["asc", "desc"]).default("desc"),
  include: z.string().optional().describe("Has no effect"),
  "include[]": z.string().optional().describe("Has no effect"),
});
export type ItemsQuery = z.output<typeof ItemsQuery>;

const Seconds = z.int().describe("Unix seconds");

export const Conversation = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("conversation"),
      created_at: Seconds,
      metadata: z.record(z.string(), z.string()),
      name: z.string().nullable(),
      updated_at: Seconds.describe("Unix seconds of the last change of name, metadata or items"),
      item_count: z.int(),
    })
    .meta({ id: "Conversation" }),
);

export const ConversationItem = later(() =>
  z
    .looseObject({
      id: z.string(),
      type: z.string(),
      status: z.enum(["completed", "incomplete"]),
      parent_id: z.string().nullable(),
      model: z.string().nullable(),
      created_at: Seconds,
    })
    .meta({ id: "ConversationItem", description: "An item in the format of OpenAI, with parent_id and model" }),
);

/** A list as clients of OpenAI read it. */
export const clientListOf = <T extends z.ZodType>(item: T, id: string) =>
  later(() =>
    z
      .object({
        object: z.literal("list"),
        data: z.array(item),
        first_id: z.string().nullable(),
        last_id: z.string().nullable(),
        has_more: z.boolean(),
      })
      .meta({ id }),
  );

export const clientList = <T extends { id: string }>({ data, has_more }: { data: T[]; has_more: boolean }) => ({
  object: "list" as const,
  data,
  first_id: data[0]?.id ?? null,
  last_id: data.at(-1)?.id ?? null,
  has_more,
});

export const DeletedConversation = later(() =>
  z
    .object({ id: z.string(), object: z.literal("conversation.deleted"), deleted: z.literal(true) })
    .meta({ id: "DeletedConversation" }),
);

export const present = (row: ConversationRow) => ({
  id: row.id,
  object: "conversation" as const,
  created_at: seconds(row.createdAt),
  metadata: row.metadata,
  name: row.name,
  updated_at: seconds(row.updatedAt),
  item_count: row.itemCount,
});

export const presentItem = (row: ItemRow) => ({
  ...(JSON.parse(row.item) as StoredItem),
  id: row.id,
  parent_id: row.parentId,
  model: row.model,
  created_at: seconds(row.createdAt),
});
