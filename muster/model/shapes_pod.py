"""The shape of a pod template as Kubernetes has it inside other kinds; the kinds of Kueue and Volcano use it."""

from __future__ import annotations

from muster.model.shapes import ListOf, MapOf, Struct, Text, Whole
from muster.model.shapes_notation import POD_QUANTITIES, fields, listed

# Selectors and affinity -------------------------------------------------------------------------------------------

_REQUIREMENTS = listed(fields("key! operator! values[]"))
LABEL_SELECTOR = fields("matchLabels{}", is_atomic=True, matchExpressions=_REQUIREMENTS)
_NODE_TERM = fields("", is_atomic=True, matchExpressions=_REQUIREMENTS, matchFields=_REQUIREMENTS)
_NODE_AFFINITY = fields(
    "",
    preferredDuringSchedulingIgnoredDuringExecution=listed(fields("preference! weight:int!", preference=_NODE_TERM)),
    requiredDuringSchedulingIgnoredDuringExecution=fields(
        "nodeSelectorTerms!", is_atomic=True, nodeSelectorTerms=listed(_NODE_TERM)
    ),
)
_POD_TERM = fields(
    "matchLabelKeys[] mismatchLabelKeys[] namespaces[] topologyKey!",
    labelSelector=LABEL_SELECTOR,
    namespaceSelector=LABEL_SELECTOR,
)
_POD_AFFINITY = fields(
    "",
    preferredDuringSchedulingIgnoredDuringExecution=listed(
        fields("podAffinityTerm! weight:int!", podAffinityTerm=_POD_TERM)
    ),
    requiredDuringSchedulingIgnoredDuringExecution=listed(_POD_TERM),
)
_AFFINITY = fields("", nodeAffinity=_NODE_AFFINITY, podAffinity=_POD_AFFINITY, podAntiAffinity=_POD_AFFINITY)
_SPREAD = fields(
    "matchLabelKeys[] maxSkew:int! minDomains:int nodeAffinityPolicy nodeTaintsPolicy topologyKey! whenUnsatisfiable!",
    labelSelector=LABEL_SELECTOR,
)

TOLERATION = fields("effect key operator tolerationSeconds:long value")

# Containers -------------------------------------------------------------------------------------------------------

_KEY_REFERENCE = fields("key! name= optional:bool", is_atomic=True)
_FIELD_REFERENCE = fields("apiVersion fieldPath!", is_atomic=True)
_RESOURCE_REFERENCE = fields("containerName divisor:quantity resource!", is_atomic=True)
_ENV = fields(
    "name! value",
    valueFrom=fields(
        "",
        configMapKeyRef=_KEY_REFERENCE,
        fieldRef=_FIELD_REFERENCE,
        fileKeyRef=fields("key! optional:bool=false path! volumeName!", is_atomic=True),
        resourceFieldRef=_RESOURCE_REFERENCE,
        secretKeyRef=_KEY_REFERENCE,
    ),
)
_WHOLE_REFERENCE = fields("name= optional:bool", is_atomic=True)
_ENV_FROM = fields("prefix", configMapRef=_WHOLE_REFERENCE, secretRef=_WHOLE_REFERENCE)

_EXEC = fields("command[]")
_NAMED_VALUES = listed(fields("name! value!"))
_HTTP_GET = fields("host path port:port! scheme", httpHeaders=_NAMED_VALUES)
_TCP_SOCKET = fields("host port:port!")
_HANDLER = fields("", exec=_EXEC, httpGet=_HTTP_GET, sleep=fields("seconds:long!"), tcpSocket=_TCP_SOCKET)
_PROBE = fields(
    "failureThreshold:int initialDelaySeconds:int periodSeconds:int successThreshold:int timeoutSeconds:int"
    " terminationGracePeriodSeconds:long",
    exec=_EXEC,
    grpc=fields("port:int! service="),
    httpGet=_HTTP_GET,
    tcpSocket=_TCP_SOCKET,
)

_PROFILE = fields("localhostProfile type!")
_SE_LINUX = fields("level role type user")
_WINDOWS = fields("gmsaCredentialSpec gmsaCredentialSpecName hostProcess:bool runAsUserName")
_CONTAINER_SECURITY = fields(
    "allowPrivilegeEscalation:bool privileged:bool procMount readOnlyRootFilesystem:bool runAsGroup:long"
    " runAsNonRoot:bool runAsUser:long",
    appArmorProfile=_PROFILE,
    capabilities=fields("add[] drop[]"),
    seLinuxOptions=_SE_LINUX,
    seccompProfile=_PROFILE,
    windowsOptions=_WINDOWS,
)
_POD_SECURITY = fields(
    "fsGroup:long fsGroupChangePolicy runAsGroup:long runAsNonRoot:bool runAsUser:long seLinuxChangePolicy"
    " supplementalGroupsPolicy",
    appArmorProfile=_PROFILE,
    seLinuxOptions=_SE_LINUX,
    seccompProfile=_PROFILE,
    supplementalGroups=ListOf(item=Whole(is_long=True), is_atomic=True),
    sysctls=_NAMED_VALUES,
    windowsOptions=_WINDOWS,
)

_RESOURCES = fields("", claims=listed(fields("name! request"), "name"), limits=POD_QUANTITIES, requests=POD_QUANTITIES)
_EXIT_CODES = fields("operator!", values=ListOf(item=Whole(), is_set=True))
_CONTAINER = fields(
    "args[] command[] image imagePullPolicy name! restartPolicy stdin:bool stdinOnce:bool terminationMessagePath"
    " terminationMessagePolicy tty:bool workingDir",
    env=listed(_ENV, "name"),
    envFrom=listed(_ENV_FROM),
    lifecycle=fields("stopSignal", postStart=_HANDLER, preStop=_HANDLER),
    livenessProbe=_PROBE,
    ports=listed(fields("containerPort:int! hostIP hostPort:int name protocol=TCP"), "containerPort", "protocol"),
    readinessProbe=_PROBE,
    resizePolicy=listed(fields("resourceName! restartPolicy!")),
    resources=_RESOURCES,
    restartPolicyRules=listed(fields("action!", exitCodes=_EXIT_CODES)),
    securityContext=_CONTAINER_SECURITY,
    startupProbe=_PROBE,
    volumeDevices=listed(fields("devicePath! name!"), "devicePath"),
    volumeMounts=listed(
        fields("mountPath! mountPropagation name! readOnly:bool recursiveReadOnly subPath subPathExpr"), "mountPath"
    ),
)
_EPHEMERAL_CONTAINER = Struct(fields={**_CONTAINER.fields, "targetContainerName": Text()}, required=_CONTAINER.required)

# Volumes ----------------------------------------------------------------------------------------------------------

METADATA = fields("annotations{} labels{} name namespace", finalizers=ListOf(item=Text()))
_SECRET = fields("name=", is_atomic=True)
_KEYS_TO_PATHS = listed(fields("key! mode:int path!"))
_DOWNWARD_ITEMS = listed(fields("mode:int path!", fieldRef=_FIELD_REFERENCE, resourceFieldRef=_RESOURCE_REFERENCE))
CLAIM_SPEC = fields(
    "accessModes[] storageClassName volumeAttributesClassName volumeMode volumeName",
    dataSource=fields("apiGroup kind! name!", is_atomic=True),
    dataSourceRef=fields("apiGroup kind! name! namespace"),
    resources=fields("", limits=POD_QUANTITIES, requests=POD_QUANTITIES),
    selector=LABEL_SELECTOR,
)
_PROJECTED_KEYS = fields("name= optional:bool", is_atomic=True, items=_KEYS_TO_PATHS)
_PROJECTED = fields(
    "",
    clusterTrustBundle=fields("name optional:bool path! signerName", labelSelector=LABEL_SELECTOR),
    configMap=_PROJECTED_KEYS,
    downwardAPI=fields("", items=_DOWNWARD_ITEMS),
    podCertificate=fields(
        "certificateChainPath credentialBundlePath keyPath keyType! maxExpirationSeconds:int signerName!"
        " userAnnotations{}"
    ),
    secret=_PROJECTED_KEYS,
    serviceAccountToken=fields("audience expirationSeconds:long path!"),
)
_VOLUME = fields(
    "name!",
    awsElasticBlockStore=fields("fsType partition:int readOnly:bool volumeID!"),
    azureDisk=fields("cachingMode diskName! diskURI! fsType=ext4 kind readOnly:bool=false"),
    azureFile=fields("readOnly:bool secretName! shareName!"),
    cephfs=fields("monitors[]! path readOnly:bool secretFile user", secretRef=_SECRET),
    cinder=fields("fsType readOnly:bool volumeID!", secretRef=_SECRET),
    configMap=fields("defaultMode:int name= optional:bool", is_atomic=True, items=_KEYS_TO_PATHS),
    csi=fields("driver! fsType readOnly:bool volumeAttributes{}", nodePublishSecretRef=_SECRET),
    downwardAPI=fields("defaultMode:int", items=_DOWNWARD_ITEMS),
    emptyDir=fields("medium sizeLimit:quantity"),
    ephemeral=fields("", volumeClaimTemplate=fields("spec!", metadata=METADATA, spec=CLAIM_SPEC)),
    fc=fields("fsType lun:int readOnly:bool targetWWNs[] wwids[]"),
    flexVolume=fields("driver! fsType options{} readOnly:bool", secretRef=_SECRET),
    flocker=fields("datasetName datasetUUID"),
    gcePersistentDisk=fields("fsType partition:int pdName! readOnly:bool"),
    gitRepo=fields("directory repository! revision"),
    glusterfs=fields("endpoints! path! readOnly:bool"),
    hostPath=fields("path! type"),
    image=fields("pullPolicy reference"),
    iscsi=fields(
        "chapAuthDiscovery:bool chapAuthSession:bool fsType initiatorName iqn! iscsiInterface=default lun:int!"
        " portals[] readOnly:bool targetPortal!",
        secretRef=_SECRET,
    ),
    nfs=fields("path! readOnly:bool server!"),
    persistentVolumeClaim=fields("claimName! readOnly:bool"),
    photonPersistentDisk=fields("fsType pdID!"),
    portworxVolume=fields("fsType readOnly:bool volumeID!"),
    projected=fields("defaultMode:int", sources=listed(_PROJECTED)),
    quobyte=fields("group readOnly:bool registry! tenant user volume!"),
    rbd=fields(
        "fsType image! keyring=/etc/ceph/keyring monitors[]! pool=rbd readOnly:bool user=admin", secretRef=_SECRET
    ),
    scaleIO=fields(
        "fsType=xfs gateway! protectionDomain readOnly:bool secretRef! sslEnabled:bool storageMode=ThinProvisioned"
        " storagePool system! volumeName",
        secretRef=_SECRET,
    ),
    secret=fields("defaultMode:int optional:bool secretName", items=_KEYS_TO_PATHS),
    storageos=fields("fsType readOnly:bool volumeName volumeNamespace", secretRef=_SECRET),
    vsphereVolume=fields("fsType storagePolicyID storagePolicyName volumePath!"),
)

# The pod ----------------------------------------------------------------------------------------------------------

_POD = fields(
    "activeDeadlineSeconds:long automountServiceAccountToken:bool containers! dnsPolicy enableServiceLinks:bool"
    " hostIPC:bool hostNetwork:bool hostPID:bool hostUsers:bool hostname hostnameOverride nodeName preemptionPolicy"
    " priority:int priorityClassName restartPolicy runtimeClassName schedulerName serviceAccount serviceAccountName"
    " setHostnameAsFQDN:bool shareProcessNamespace:bool subdomain terminationGracePeriodSeconds:long",
    affinity=_AFFINITY,
    containers=listed(_CONTAINER, "name"),
    dnsConfig=fields("nameservers[] searches[]", options=listed(fields("name value"))),
    ephemeralContainers=listed(_EPHEMERAL_CONTAINER, "name"),
    hostAliases=listed(fields("hostnames[] ip!"), "ip"),
    imagePullSecrets=listed(_SECRET, "name"),
    initContainers=listed(_CONTAINER, "name"),
    nodeSelector=MapOf(item=Text(), is_atomic=True),
    os=fields("name!"),
    overhead=POD_QUANTITIES,
    readinessGates=listed(fields("conditionType!")),
    resourceClaims=listed(fields("name! resourceClaimName resourceClaimTemplateName"), "name"),
    resources=_RESOURCES,
    schedulingGates=listed(fields("name!"), "name"),
    schedulingGroup=fields("podGroupName"),
    securityContext=_POD_SECURITY,
    tolerations=ListOf(item=TOLERATION, is_atomic=True),
    topologySpreadConstraints=listed(_SPREAD, "topologyKey", "whenUnsatisfiable"),
    volumes=listed(_VOLUME, "name"),
)
POD_TEMPLATE = fields("", metadata=METADATA, spec=_POD)
