"""Names of languages by the codes that multilingual models use.

Models write the same language as `de`, `deu`, `deu_Latn`, `de_DE` or `>>deu<<`: two or three
letters of ISO 639, perhaps followed by a script or a country. An individual language is listed with
the group that other models name instead (`arb` with `ara`, `lvs` with `lav`).
"""

from __future__ import annotations

import re

#: The codes of a language, a colon, its name.
_NAMES = """
ace: Acehnese; acm: Mesopotamian Arabic; acq: Ta'izzi-Adeni Arabic; aeb: Tunisian Arabic
af afr: Afrikaans; ajp: South Levantine Arabic; ak aka: Akan; am amh: Amharic
apc: North Levantine Arabic; ar ara arb: Arabic; ars: Najdi Arabic; ary: Moroccan Arabic
arz: Egyptian Arabic; as asm: Assamese; ast: Asturian; awa: Awadhi; ay aym ayr: Aymara
azb: South Azerbaijani; az aze azj: Azerbaijani; ba bak: Bashkir; bm bam: Bambara; ban: Balinese
be bel: Belarusian; bem: Bemba; bn ben: Bengali; bho: Bhojpuri; bjn: Banjar; bo bod: Tibetan
br bre: Breton; bs bos: Bosnian; bug: Buginese; bg bul: Bulgarian; ca cat: Catalan; ceb: Cebuano
cs ces: Czech; cjk: Chokwe; ckb: Central Kurdish; crh: Crimean Tatar; cy cym: Welsh; da dan: Danish
de deu: German; dik: Southwestern Dinka; dyu: Dyula; dz dzo: Dzongkha; el ell: Greek
en eng: English; eo epo: Esperanto; et est ekk: Estonian; eu eus: Basque; ee ewe: Ewe
fo fao: Faroese; fj fij: Fijian; fi fin: Finnish; fon: Fon; fr fra: French; fur: Friulian
fy fry: Western Frisian; ff ful fuv: Fulah; gd gla: Scottish Gaelic; ga gle: Irish
gl glg: Galician; gn grn: Guarani; gu guj: Gujarati; ht hat: Haitian Creole; ha hau: Hausa
he heb: Hebrew; hi hin: Hindi; hne: Chhattisgarhi; hr hrv: Croatian; hu hun: Hungarian
hy hye: Armenian; ia ina: Interlingua; ig ibo: Igbo; ilo: Iloko; id ind: Indonesian
is isl: Icelandic; it ita: Italian; jv jav: Javanese; ja jpn: Japanese; kab: Kabyle; kac: Jingpho
kam: Kamba; kn kan: Kannada; ks kas: Kashmiri; ka kat: Georgian; knc: Central Kanuri
kk kaz: Kazakh; kbp: Kabiyè; kea: Kabuverdianu; km khm: Khmer; ki kik: Kikuyu; rw kin: Kinyarwanda
ky kir: Kyrgyz; kmb: Kimbundu; ku kur kmr: Northern Kurdish; kg kon: Kongo; ko kor: Korean
la lat: Latin; lo lao: Lao; lij: Ligurian; li lim: Limburgish; ln lin: Lingala; lt lit: Lithuanian
lmo: Lombard; ltg: Latgalian; lb ltz: Luxembourgish; lua: Luba-Kasai; lg lug: Ganda; luo: Luo
lus: Mizo; lv lav lvs: Latvian; mag: Magahi; mai: Maithili; ml mal: Malayalam; mr mar: Marathi
min: Minangkabau; mk mkd: Macedonian; mg mlg plt: Malagasy; mt mlt: Maltese; mni: Meitei
mn mon khk: Mongolian; mos: Mossi; mi mri: Maori; my mya: Burmese; nl nld: Dutch
nn nno: Norwegian Nynorsk; nb nob: Norwegian Bokmål; no nor: Norwegian; ne nep npi: Nepali
ns nso: Northern Sotho; nus: Nuer; ny nya: Nyanja; oc oci: Occitan; om orm gaz: Oromo
or ori ory: Odia; pag: Pangasinan; pa pan: Panjabi; pap: Papiamento; fa fas pes: Persian
pl pol: Polish; pt por: Portuguese; prs: Dari; ps pus pbt: Pashto; qu que quy: Quechua
rm roh: Romansh; ro ron: Romanian; rn run: Rundi; ru rus: Russian; sg sag: Sango; sa san: Sanskrit
sat: Santali; scn: Sicilian; shn: Shan; si sin: Sinhala; sk slk: Slovak; sl slv: Slovenian
sm smo: Samoan; sn sna: Shona; sd snd: Sindhi; so som: Somali; st sot: Southern Sotho
es spa: Spanish; sq sqi als: Albanian; sc srd: Sardinian; sr srp: Serbian; ss ssw: Swati
su sun: Sundanese; sv swe: Swedish; sw swa swh: Swahili; szl: Silesian; ta tam: Tamil
taq: Tamasheq; tt tat: Tatar; te tel: Telugu; tg tgk: Tajik; tl tgl: Tagalog; th tha: Thai
ti tir: Tigrinya; tpi: Tok Pisin; tn tsn: Tswana; ts tso: Tsonga; tk tuk: Turkmen; tum: Tumbuka
tr tur: Turkish; tw twi: Twi; tzm: Central Atlas Tamazight; ug uig: Uyghur; uk ukr: Ukrainian
umb: Umbundu; ur urd: Urdu; uz uzb uzn: Uzbek; vec: Venetian; vi vie: Vietnamese; wa wln: Walloon
war: Waray; wo wol: Wolof; xh xho: Xhosa; yi yid ydd: Yiddish; yo yor: Yoruba; yue: Cantonese
zh zho cmn: Chinese; ms msa zsm: Malay; zu zul: Zulu
"""

_BY_CODE = {
    code: name
    for codes, _, name in (
        each.strip().partition(": ") for line in _NAMES.strip().splitlines()
        for each in line.split(";")
    )
    for code in codes.split()
}  # fmt: skip


def name_of(code: str) -> str:
    """Return the language's name, or the code itself if it is unknown."""
    base = re.split(r"[_\-@]", code, maxsplit=1)[0].lower()
    return _BY_CODE.get(base, code)


def label_of(code: str) -> str:
    """Return name and code: `German · deu_Latn`."""
    name = name_of(code)
    return code if name == code else f"{name} · {code}"
