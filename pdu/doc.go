// Package pdu encodes and decodes the protocol data units that PCP clients,
// pmcd and agents exchange, and holds the types they carry: PMID, InDom, Desc,
// Errno and the like.
//
// Every PDU starts with three big-endian 32-bit words
//
//	len   int32  // bytes in the whole PDU, this header included
//	type  int32  // a Type
//	from  int32  // pid of the sender, or the client number (pmcd to agent)
//
// and goes on with the body, which is one of
//
//	type            message         sent by                 answered with
//	ERROR           Error           anyone                  -
//	RESULT          Result          client, pmcd (store)    ERROR
//	                                pmcd, agent (values)    -
//	PROFILE         Profile         client, pmcd            -
//	FETCH           Fetch           client, pmcd            RESULT
//	HIGHRES_FETCH   HighResFetch    client                  HIGHRES_RESULT
//	HIGHRES_RESULT  HighResResult   pmcd                    -
//	DESC_REQ        DescReq         client, pmcd            DESC
//	DESC            Desc            pmcd, agent             -
//	DESC_IDS        DescIDs         client                  DESCS
//	DESCS           Descs           pmcd                    -
//	INSTANCE_REQ    InstanceReq     client, pmcd            INSTANCE
//	INSTANCE        Instance        pmcd, agent             -
//	TEXT_REQ        TextReq         client, pmcd            TEXT
//	TEXT            Text            pmcd, agent             -
//	CREDS           Creds           client, pmcd, agent     -
//	PMNS_NAMES      PMNSNames       client, pmcd (names)    PMNS_IDS
//	                                pmcd, agent (reply)     -
//	PMNS_IDS        PMNSIDs         client, pmcd (PMIDs)    PMNS_NAMES
//	                                pmcd, agent (reply)     -
//	PMNS_CHILD      PMNSChild       client, pmcd            PMNS_NAMES
//	PMNS_TRAVERSE   PMNSTraverse    client, pmcd            PMNS_NAMES
//	ATTR            Attr            client, pmcd            -, or ATTR
//	LABEL_REQ       LabelReq        client, pmcd            LABEL
//	LABEL           Labels          pmcd, agent             -
//
// The reply to a request that fails is an ERROR. CONTROL_REQ has a type code and
// is not used.
//
// [Parse] decodes a whole PDU and [Append] encodes a message. Results can be relayed
// without decoding their values: [ResultWriter] builds a result in wire form,
// [Sets] and [ResultWriter.Move] copy value sets from several results to one, and
// [CheckResult] with [ToHighRes] converts an agent's reply into a client's in
// place.
//
// Decoding is as strict as in libpcp 7.2: lengths must be exact. There are four
// exceptions. An ERROR has 16 or 20 bytes. Any bytes may follow a PMNS_CHILD, a
// PMNS_TRAVERSE and a PROFILE without instance domains. Up to 3 bytes may follow a
// LABEL. Padding may have any content.
//
// The package does no I/O beyond an [io.Reader], keeps no global state and
// logs nothing.
package pdu
