import { XML_DECLARATION } from "../base/xml.ts";
import { readOperation, theService } from "../http/operation.ts";

const NAMESPACE = "http://schemas.microsoft.com/ado/2007/06/edmx";
const MODEL = "http://schemas.microsoft.com/ado/2009/11/edm";

const property = (name: string, type: string) =>
  `<Property Name="${name}" Type="Edm.${type}" Nullable="false"/>`;

/** Tables have no schema but for the properties that every entity has. */
export const getMetadata = readOperation({
  name: "Get Metadata",
  match: { method: "GET", on: "metadata" },
  allow: { sas: "r", resource: "s" },
  guard: { on: theService, conditions: "none", lease: "own" },
  async apply({ request }) {
    const entity = `<EntityType Name="Entity" OpenType="true"><Key><PropertyRef Name="PartitionKey"/><PropertyRef Name="RowKey"/></Key>${property("PartitionKey", "String")}${property("RowKey", "String")}${property("Timestamp", "DateTime")}</EntityType>`;
    const table = `<EntityType Name="Table"><Key><PropertyRef Name="TableName"/></Key>${property("TableName", "String")}</EntityType>`;
    const sets = `<EntityContainer Name="TableService"><EntitySet Name="Tables" EntityType="${request.account}.Table"/></EntityContainer>`;
    const body = `${XML_DECLARATION}<edmx:Edmx Version="1.0" xmlns:edmx="${NAMESPACE}"><edmx:DataServices><Schema Namespace="${request.account}" xmlns="${MODEL}">${entity}${table}${sets}</Schema></edmx:DataServices></edmx:Edmx>`;
    return { status: 200, headers: { "Content-Type": "application/xml" }, body };
  },
});
